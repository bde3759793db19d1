"""A batch job on Ray Data: each actor has a core set and the model, which is mapped once per machine.

    python ray_batch.py --model resnet18.onnx --pictures s3://bucket/pictures --out s3://bucket/classes --actors 8 --cores 4
    python ray_batch.py --model minilm.onnx --tokenizer tokenizer.json --texts texts.parquet --out vectors --actors 8

On a cluster by `ray job submit --working-dir deploy -- python ray_batch.py ...`, which brings ray_treadle.py along.
Pictures are files (JPEG, PNG, what Pillow reads) of a folder that all machines reach; of each its path, the five likeliest
classes, their probabilities, and `error`, the reason where it cannot be read. Texts are a column `text` of Parquet or CSV;
all columns come back with `vector`, the mean of the last layer over the text's tokens. Each row is written once, whatever
machines are lost: Ray computes again what was lost with them, and files of results have names that do not depend on who
writes them."""
import argparse
import functools
import math
import os

import numpy
import pyarrow
import pyarrow.dataset
import pyarrow.fs
import ray
import ray.data

import ray_treadle

ACTORS_OF_TASK = 8    # for which one task reads or writes: these take no CPUs, so Ray would start them without end
BATCHES_OF_BLOCK = 16  # of what one task computes and one file holds: more costs less of Ray's time, and more to do again


def in_pieces(model, inputs):
    """The first output of the model; where its first size is fixed, by as many rows, of which the last are repeated."""
    rows, fixed = len(inputs[0]), model.inputs[0].shape[0]
    if not isinstance(fixed, int):
        return numpy.asarray(first(model(*inputs)))
    places = [numpy.minimum(numpy.arange(at, at + fixed), rows - 1) for at in range(0, rows, fixed)]
    return numpy.concatenate([first(model(*(x[place] for x in inputs))) for place in places])[:rows]


def first(outputs):
    return outputs[0] if isinstance(outputs, tuple) else outputs


@functools.lru_cache
def system_of(folder):
    """Where a folder is, and its path there; to ask for it may take a request, so not once for each picture."""
    return pyarrow.fs.FileSystem.from_uri(folder)


class Pictures:
    """Of a batch of paths the classes."""

    def __init__(self, model, cores, load=ray_treadle.load):
        self.core_set = ray_treadle.CoreSet(cores)
        self.model = load(model, cores)

    def read(self, path):
        folder, name = path.rsplit("/", 1)
        try:
            system, inside = system_of(folder)
            with system.open_input_file(f"{inside}/{name}") as file:
                return ray_treadle.picture(file.readall()), ""
        except (OSError, ValueError) as error:  # also Arrow's
            return numpy.zeros((3, 224, 224), "f4"), f"{type(error).__name__}: {error}"

    def __call__(self, batch):
        pixels, errors = zip(*(self.read(path) for path in batch["path"]))
        classes, shares = ray_treadle.likeliest(in_pieces(self.model, [numpy.stack(pixels)]))
        wrong = numpy.array([bool(error) for error in errors])
        classes[wrong], shares[wrong] = -1, 0
        return {"path": batch["path"], "classes": classes, "probabilities": shares, "error": list(errors)}


class Texts:
    """Of a batch of texts the vectors."""

    def __init__(self, model, tokenizer, cores, length, load=ray_treadle.load):
        from tokenizers import Tokenizer

        self.core_set = ray_treadle.CoreSet(cores)
        self.model = load(model, cores)
        self.tokenizer = Tokenizer.from_file(tokenizer)
        self.tokenizer.enable_truncation(length)
        self.tokenizer.enable_padding(length=length)  # the same for all, so that no row depends on its neighbours

    def __call__(self, batch):
        texts = self.tokenizer.encode_batch([str(text) for text in batch["text"]])
        columns = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
        wanted = [columns[value.name] for value in self.model.inputs]
        values = {name: numpy.array([getattr(text, name) for text in texts], "i8") for name in {*wanted, "attention_mask"}}
        states = in_pieces(self.model, [values[name] for name in wanted])
        mask = values["attention_mask"][:, :, None].astype("f4")
        return {**batch, "vector": (states * mask).sum(axis=1) / numpy.maximum(mask.sum(axis=1), 1)}


def files_of(folder):
    """Paths of all files below a folder, or of the one file, absolute or as URIs."""
    folder = folder if "://" in folder else os.path.abspath(folder)
    system, name = pyarrow.fs.FileSystem.from_uri(folder)
    if system.get_file_info(name).type == pyarrow.fs.FileType.File:
        return [folder]
    found = system.get_file_info(pyarrow.fs.FileSelector(name, recursive=True))
    scheme = folder.partition("://")[0] + "://" if "://" in folder else ""
    return [scheme + path for path in sorted(info.path for info in found if info.type == pyarrow.fs.FileType.File)]


def mapped(rows, kind, arguments, actors, cores, batch):
    """Rows through `actors` actors of a class. An actor that is lost with its machine is started on another one that has
    CPUs, or waits until there is one; what it had not finished is computed again."""
    return rows.map_batches(kind, fn_constructor_kwargs={"cores": cores, **arguments}, batch_size=batch, num_cpus=cores,
                            compute=ray.data.ActorPoolStrategy(size=actors))


def rows_of_block(rows, actors, batch, block):
    return min(batch * block, max(batch, math.ceil(rows / actors)))


def pictures(paths, model, actors=1, cores=1, batch=16, block=BATCHES_OF_BLOCK, kind=Pictures, **arguments):
    blocks = math.ceil(len(paths) / rows_of_block(len(paths), actors, batch, block))
    rows = ray.data.from_items([{"path": path} for path in paths], override_num_blocks=max(1, blocks))
    return mapped(rows, kind, {"model": model, **arguments}, actors, cores, batch)


def read_rows(parts):
    """Rows of a file that a part names."""
    tables = [pyarrow.dataset.dataset(file, format=ending_of(file)).to_table().slice(at, rows)
              for file, at, rows in zip(*(parts[name].tolist() for name in ("file", "first", "rows")))]
    return pyarrow.concat_tables(tables)


def ending_of(file):
    return "csv" if file.endswith(".csv") else "parquet"


def texts(files, model, tokenizer, actors=1, cores=1, batch=16, block=BATCHES_OF_BLOCK, length=128, kind=Texts,
          **arguments):
    """Ray's own readers of tables list files by a task that wants a CPU, which where actors have them all there is not: so
    parts of files are the rows that it is given. A file is read once for each of its parts: some 100,000 rows are enough."""
    counts = {file: pyarrow.dataset.dataset(file, format=ending_of(file)).count_rows() for file in files}
    part = rows_of_block(sum(counts.values()), actors, batch, block)
    parts = [{"file": file, "first": at, "rows": min(part, count - at)} for file, count in counts.items()
             for at in range(0, count, part)]
    rows = ray.data.from_items(parts, override_num_blocks=len(parts))
    rows = rows.map_batches(read_rows, batch_size=None, num_cpus=0, concurrency=tasks_of(actors))
    return mapped(rows, kind, {"model": model, "tokenizer": tokenizer, "length": length, **arguments}, actors, cores, batch)


def tasks_of(actors):
    return math.ceil(actors / ACTORS_OF_TASK)


def write(rows, out, actors=1):
    # it waits more than it computes, and takes none of the CPUs, all of which actors may have
    rows.write_parquet(out, ray_remote_args={"num_cpus": 0}, concurrency=tasks_of(actors))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", required=True, help="a model file, a .tdl, or builtin:NAME")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--pictures", help="a folder, or s3://...")
    source.add_argument("--texts", help="a file, or a folder of files, of Parquet or CSV with a column `text`")
    parser.add_argument("--tokenizer", help="tokenizer.json, for --texts")
    parser.add_argument("--length", type=int, default=128, help="tokens of a text (128)")
    parser.add_argument("--out", required=True, help="a folder for Parquet files, which should be empty")
    parser.add_argument("--actors", type=int, default=1)
    parser.add_argument("--cores", type=int, default=1, help="of each actor")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--block", type=int, default=BATCHES_OF_BLOCK, help="batches of a task; many machines want more")
    args = parser.parse_args()
    if args.texts and not args.tokenizer:
        parser.error("--texts needs --tokenizer")
    ray.init(runtime_env={"py_modules": [__file__, ray_treadle.__file__]})
    common = {"model": args.model, "actors": args.actors, "cores": args.cores, "batch": args.batch,
              "block": args.block}
    if args.pictures:
        rows = pictures(files_of(args.pictures), **common)
    else:
        rows = texts(files_of(args.texts), tokenizer=args.tokenizer, length=args.length, **common)
    write(rows, args.out, args.actors)


if __name__ == "__main__":
    import ray_batch  # under this name actors find its classes

    ray_batch.main()
