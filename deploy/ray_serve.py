"""A model on Ray Serve: replicas compute in their own process, each on a core set that no other one has.

    serve run --app-dir deploy --working-dir deploy ray_serve:app model=/models/resnet18.onnx replicas=2 cores=4

    curl -T cat.jpg http://127.0.0.1:8000/
    curl -d '{"inputs":[{"name":"x","datatype":"FP32","shape":[1,3],"data":[1,2,3]}]}' \\
      -H 'Content-Type: application/json' http://127.0.0.1:8000/

JSON is a request of KServe's V2 protocol, all else a picture, answered with the five likeliest classes; GET says which
inputs there are. In Python: handle.predict.remote({"x": array}). Requests that wait together are computed as one, where the
model's first size is open, and no request waits for others. Replicas take traffic once they have run; when Serve stops one,
it finishes what it has. Health is a run that ended: of a request since the last check, else one on zeros."""
import asyncio
import concurrent.futures
import json
import pathlib
import time

import numpy
import treadle
from ray import serve
from starlette.requests import Request
from starlette.responses import JSONResponse

import ray_treadle

# KServe's name of an element type, numpy's, and ours
TYPES = [("FP32", "f4", "f32"), ("FP64", "f8", "f64"), ("FP16", "f2", "f16"), ("INT64", "i8", "i64"),
         ("INT32", "i4", "i32"), ("INT16", "i2", "i16"), ("INT8", "i1", "i8"), ("UINT8", "u1", "u8"), ("BOOL", "?", "bool")]
OF_KSERVE = {row[0]: row[1] for row in TYPES}
OF_NUMPY = {numpy.dtype(row[1]): row[0] for row in TYPES}
OF_OURS = {row[2]: row for row in TYPES}
# what a request is answered with, by the first that fits
STATUSES = [(treadle.TimedOut, 504), (treadle.NoResource, 507), (treadle.Unsupported, 501), (ValueError, 400)]


def zeros(model):
    """Inputs of one row; other sizes that are open are 1, or those of a picture."""
    def sizes(shape):
        other = 224 if len(shape) == 4 else 1
        return [size if isinstance(size, int) else 1 if not at else other for at, size in enumerate(shape)]
    return {value.name: numpy.zeros(sizes(value.shape), OF_OURS[value.dtype][1]) for value in model.inputs}


def tensors(body):
    """A request of V2 as arrays by name."""
    try:
        return {item["name"]: numpy.array(item["data"], OF_KSERVE[item["datatype"]]).reshape(item["shape"])
                for item in json.loads(body)["inputs"]}
    except (KeyError, TypeError, OverflowError) as error:
        raise ValueError(f"not a request of V2 with name, datatype, shape and data ({error!r})") from error


class Predictor:
    def __init__(self, model, cores=1, batch=8, timeout=30.0):
        self.name = pathlib.PurePath(model).stem  # where it lies is nobody's business
        self.core_set = ray_treadle.CoreSet(cores)
        self.model = ray_treadle.load(model, cores)
        self.session = self.model.session(threads=cores, timeout=timeout)
        self.computing = concurrent.futures.ThreadPoolExecutor(1)  # so that the event loop answers probes meanwhile
        self.timeout, self.last_end, self.last_check = timeout, 0.0, 0.0
        self.requests = self.runs = 0
        values = self.model.inputs + self.model.outputs
        is_open = all(value.shape and not isinstance(value.shape[0], int) for value in values)
        self.together.set_max_batch_size(batch if is_open else 1)
        self.probe()  # what cannot run takes no traffic

    def probe(self):
        [found] = self.compute([zeros(self.model)])
        if isinstance(found, Exception):
            raise found

    async def check_health(self):
        since, self.last_check = self.last_check, time.monotonic()
        if self.last_end <= since:
            run = asyncio.get_running_loop().run_in_executor(self.computing, self.probe)
            await asyncio.wait_for(run, self.timeout)

    def outputs(self, inputs):
        given = self.session(**inputs)
        given = given if isinstance(given, tuple) else (given,)
        return {value.name: numpy.asarray(array) for value, array in zip(self.model.outputs, given)}

    def compute(self, requests):
        """Of each request its outputs, or why there are none: one that is wrong fails alone."""
        try:
            inputs = requests[0]
            if len(requests) > 1:
                inputs = {name: numpy.concatenate([request[name] for request in requests]) for name in inputs}
            found = self.outputs(inputs)
            self.requests, self.runs = self.requests + len(requests), self.runs + 1
            self.last_end = time.monotonic()
            if len(requests) == 1:
                return [found]
            rows = [len(next(iter(request.values()))) for request in requests]
            ends = numpy.cumsum(rows)
            return [{name: array[end - count:end] for name, array in found.items()} for end, count in zip(ends, rows)]
        except Exception as error:
            if len(requests) == 1:
                return [error]
            return [self.compute([request])[0] for request in requests]

    @serve.batch(batch_wait_timeout_s=0)
    async def together(self, requests):
        return await asyncio.get_running_loop().run_in_executor(self.computing, self.compute, requests)

    async def predict(self, inputs):
        """Arrays by name in, arrays by name out."""
        self.check(inputs)
        found = await self.together(inputs)
        if isinstance(found, Exception):
            raise found
        return found

    def check(self, inputs):
        """Names, types and fixed sizes are the model's: others would spoil the batch that they are in."""
        if set(inputs) != {value.name for value in self.model.inputs}:
            raise ValueError(f"the model's inputs are {[value.name for value in self.model.inputs]}, not {sorted(inputs)}")
        for value in self.model.inputs:
            array = inputs[value.name]
            fits = len(array.shape) == len(value.shape) and all(
                size == wanted or not isinstance(wanted, int) for size, wanted in zip(array.shape, value.shape))
            if not fits or array.dtype != OF_OURS[value.dtype][1]:
                raise ValueError(f"{value.name} is to be {value.dtype}{list(value.shape)}, "
                                 f"not {array.dtype}{list(array.shape)}")
        if len({len(array) for array in inputs.values()}) > 1 and self.together._get_max_batch_size() > 1:
            raise ValueError("the inputs have different numbers of rows")

    async def classify(self, body):
        [value] = self.model.inputs
        pixels = await asyncio.get_running_loop().run_in_executor(None, ray_treadle.picture, body)
        found = await self.predict({value.name: pixels[None]})
        classes, shares = ray_treadle.likeliest(next(iter(found.values())))
        return {str(number): float(share) for number, share in zip(classes[0], shares[0])}

    async def infer(self, body):
        found = await self.predict(tensors(body))
        return {"model_name": self.name,
                "outputs": [{"name": name, "datatype": OF_NUMPY[array.dtype], "shape": list(array.shape),
                             "data": array.ravel().tolist()} for name, array in found.items()]}

    def metadata(self):
        return {"name": self.name,
                "inputs": [{"name": value.name, "datatype": OF_OURS[value.dtype][0],
                            "shape": [size if isinstance(size, int) else -1 for size in value.shape]}
                           for value in self.model.inputs]}

    def state(self):
        """Where it computes, and how many requests by how many runs so far, probes included."""
        return {"cpus": self.core_set.cpus, "requests": self.requests, "runs": self.runs}

    async def __call__(self, request: Request):
        try:
            if request.method == "GET":
                return JSONResponse(self.metadata())
            body = await request.body()
            is_json = request.headers.get("content-type", "").startswith("application/json")
            return JSONResponse(await (self.infer(body) if is_json else self.classify(body)))
        except Exception as error:
            status = next((status for kind, status in STATUSES if isinstance(error, kind)), 500)
            return JSONResponse({"error": str(error)}, status)


def app(args):
    """serve run ray_serve:app KEY=VALUE...: model, and replicas, cores, batch, queue, timeout, drain, health (seconds)."""
    cores, batch, timeout = int(args.get("cores", 1)), int(args.get("batch", 8)), float(args.get("timeout", 30))
    deployment = serve.deployment(
        Predictor,
        name="treadle",
        num_replicas=int(args.get("replicas", 1)),
        ray_actor_options={"num_cpus": cores},
        max_ongoing_requests=2 * batch,  # of a replica: a batch that is computed, and the next one
        max_queued_requests=int(args.get("queue", 100)),  # of a proxy: more are answered 503
        graceful_shutdown_timeout_s=float(args.get("drain", 30)),
        graceful_shutdown_wait_loop_s=0.5,
        health_check_period_s=float(args.get("health", 10)),
        health_check_timeout_s=timeout,
    )
    return deployment.bind(args["model"], cores, batch, timeout)
