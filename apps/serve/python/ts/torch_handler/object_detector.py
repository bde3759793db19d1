"""ObjectDetector, as TorchServe has it, for models that torch computes."""
from ts.torch_handler.vision_handler import VisionHandler, torch
from ts.utils.util import map_class_to_label


class ObjectDetector(VisionHandler):
    threshold = 0.5

    def image_processing(self, image):
        import numpy
        pixels = numpy.asarray(image.convert("RGB"), dtype="float32") / numpy.float32(255)
        return torch.from_numpy(pixels.transpose(2, 0, 1).copy()) if torch else pixels.transpose(2, 0, 1)

    def postprocess(self, data):
        result = []
        for row in data:
            chosen = [i for i, score in enumerate(row["scores"].tolist()) if score >= self.threshold]
            boxes, labels, scores = (row[key].tolist() for key in ("boxes", "labels", "scores"))
            objects = []
            for i in chosen:
                object_of = map_class_to_label([[boxes[i]]], self.mapping, [[labels[i]]])[0]
                object_of["score"] = scores[i]
                objects.append(object_of)
            result.append(objects)
        return result
