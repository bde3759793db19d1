"""The process of a Python handler: it imports the handler of an archive and answers the server's frames until the server
goes. Frames come by descriptor 3; what is printed goes to the server's log."""
import importlib
import inspect
import json
import logging
import os
import select
import socket
import struct
import sys
import threading
import traceback
import urllib.parse
import uuid

import ts.engine
from ts.context import Context, RequestProcessor
from ts.protocol.otf_message_handler import encoded
from ts.utils.util import PredictionException, get_yaml_config

LOAD, PREDICT, OUTPUTS, CANCEL, LOADED, REPLY, RUN, FAILED, PART = 1, 2, 3, 4, 16, 17, 18, 19, 20


class Channel:
    """Frames: "TPY", the kind, the lengths of a text in JSON and of the bytes behind it."""

    def __init__(self, fileno):
        os.set_inheritable(fileno, False)
        self.socket = socket.socket(fileno=fileno)
        self.running = threading.Lock()  # a handler may have threads
        self.cancelled = False  # nobody waits for the batch that is computed

    def receive_bytes(self, count):
        data = bytearray(count)
        view = memoryview(data)
        while view:
            got = self.socket.recv_into(view)
            if got == 0:
                os._exit(0)  # the server has gone: nobody is left to tell
            view = view[got:]
        return data

    def receive(self):
        magic, kind, text, count = struct.unpack("<3sBIQ", self.receive_bytes(16))
        if magic != b"TPY":
            os._exit(3)
        said = json.loads(self.receive_bytes(text).decode("utf-8", "replace"))
        return kind, said, self.receive_bytes(count)

    def send(self, kind, said, parts=()):
        text = json.dumps(said).replace("\\u0000", "?").encode()
        self.socket.sendall(struct.pack("<3sBIQ", b"TPY", kind, len(text), sum(len(part) for part in parts)) + text)
        for part in parts:
            if len(part):
                self.socket.sendall(part)

    def give_parts(self, told, parts):
        while not self.cancelled and select.select([self.socket], [], [], 0)[0]:
            self.cancelled = self.receive()[0] == CANCEL or os._exit(3)
        if self.cancelled:
            raise ts.engine.Cancelled("nobody waits for the reply any more")
        self.send(PART, {"parts": told}, parts)

    def run(self, inputs, parts):
        """Has the server compute the archive's model: descriptions of the outputs, and their bytes."""
        with self.running:
            self.send(RUN, {"inputs": inputs}, parts)
            kind, said, data = self.receive()
            if kind == CANCEL:
                self.cancelled = True
                kind, said, data = self.receive()
        if kind != OUTPUTS:
            os._exit(3)
        if self.cancelled:
            raise ts.engine.Cancelled("nobody waits for the reply any more")
        if "error" in said:
            raise (ts.engine.Unsupported if said["unsupported"] else RuntimeError)(said["error"])
        view, at, outputs = memoryview(data), 0, []
        for output in said["outputs"]:
            outputs.append((output, view[at:at + output["bytes"]]))
            at += output["bytes"]
        return outputs


# ---- what a request says ----


def split_multipart(body, boundary):
    """(headers, bytes) of each part."""
    for part in body.split(b"--" + boundary)[1:]:
        if part.startswith(b"--"):
            return
        head, found, content = part.partition(b"\r\n\r\n")
        if not found:
            continue
        headers = {}
        for line in head.decode("utf-8", "replace").split("\r\n"):
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        yield headers, content[:-2] if content.endswith(b"\r\n") else content


def parameter_of(value, name):
    """The parameter `name` of a header's value; None: there is none."""
    for piece in value.split(";")[1:]:
        key, _, text = piece.strip().partition("=")
        if key.lower() == name:
            return text.strip('"')
    return None


def decoded(content, content_type):
    """As TorchServe has it: JSON as objects, texts as str, anything else as bytes."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "application/json":
        return json.loads(content)
    if kind.startswith("text"):
        return bytes(content).decode()
    return content


def form_of(text):
    return {name: bytearray(value.encode()) for name, value in urllib.parse.parse_qsl(text, keep_blank_values=True)}


def fields_of(request, parts):
    """What the handler gets of a request: {"body": ...}, or a value for each part of a form."""
    headers = {name.lower(): value for name, value in request["headers"].items()}
    content_type = "" if request["is_raw"] else headers.get("content-type", "")
    kind = content_type.partition(";")[0].strip().lower()
    fields = {}
    if not request["is_raw"]:
        fields.update(form_of(request["query"]))
    for part, content in parts:
        boundary = parameter_of(content_type, "boundary") if kind == "multipart/form-data" else None
        if boundary:
            for own, value in split_multipart(bytes(content), boundary.encode()):
                name = parameter_of(own.get("content-disposition", ""), "name")
                if name:
                    fields[name] = decoded(bytearray(value), own.get("content-type", ""))
        elif kind == "application/x-www-form-urlencoded":
            fields.update(form_of(bytes(content).decode("utf-8", "replace")))
        else:
            fields[part["name"]] = decoded(content, content_type)
    return fields


# ---- the handler ----


class Handler:
    def __init__(self, said):
        self.folder = os.path.join(said["folder"], "model")
        self.manifest = said["manifest"]
        self.model = self.manifest.get("model", {})
        config = self.model.get("configFile")
        self.context = Context(
            said["name"], self.folder, self.manifest, said["batch_size"], None, "0.12.0", metrics=None,
            model_yaml_config=get_yaml_config(os.path.join(self.folder, config)) if config else {})
        self.call, initialize = self.find()
        initialize(self.context)

    def find(self):
        """The function that answers, and the one that is called first."""
        name, _, function = self.model["handler"].partition(":")
        name = os.path.basename(name)
        name = name[:-3] if name.endswith(".py") else name
        if self.model.get("envelope"):
            raise RuntimeError("envelopes are not there: archive it without --envelope")
        if self.model.get("requirementsFile"):
            print("its requirements are not installed by the server: Python has to have them")
        os.chdir(self.folder)
        sys.path.insert(0, self.folder)
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
            module = importlib.import_module("ts.torch_handler." + name)  # a built-in one
        if hasattr(module, function or "handle"):
            call = getattr(module, function or "handle")
            return call, lambda context: call(None, context)
        classes = [c for _, c in inspect.getmembers(module, inspect.isclass)
                   if c.__module__ == module.__name__ and hasattr(c, "handle")]
        if len(classes) != 1:
            raise RuntimeError(f"{name}.py has {len(classes)} classes with a method `handle`, and no function of that name; "
                               "one of them is needed")
        service = classes[0]()
        return service.handle, getattr(service, "initialize", lambda context: None)

    def predict(self, said, data):
        """Frame FRAME_REPLY or FRAME_FAILED for a batch: (kind, text, parts)."""
        view, at, headers, batch = memoryview(data), 0, [], []
        try:
            for request in said["requests"]:
                parts = []
                for part in request["parts"]:
                    parts.append((part, bytearray(view[at:at + part["bytes"]])))
                    at += part["bytes"]
                headers.append(RequestProcessor(request["headers"]))
                batch.append(fields_of(request, parts))
        except ValueError:
            traceback.print_exc()
            return FAILED, {"status": 400, "text": "the request's body is not what its Content-Type says"}, ()
        self.context.request_ids = {i: str(uuid.uuid4()) for i in range(len(batch))}
        self.context.request_processor = headers
        try:
            replies = self.call(batch, self.context)
        except ts.engine.Cancelled as error:
            return FAILED, {"status": 499, "text": str(error)}, ()
        except PredictionException as error:
            return FAILED, {"status": int(error.error_code), "text": str(error.message)}, ()
        except MemoryError:
            traceback.print_exc()
            return FAILED, {"status": 507, "text": "Out of resources"}, ()
        except Exception:
            traceback.print_exc()
            return FAILED, {"status": 503, "text": "Prediction failed"}, ()
        if not isinstance(replies, list):
            print(f"the handler gave {type(replies).__name__}, no list", file=sys.stderr)
            return FAILED, {"status": 503, "text": "Invalid model predict output"}, ()
        if len(replies) != len(batch):
            print(f"the handler gave {len(replies)} replies to {len(batch)} requests", file=sys.stderr)
            return FAILED, {"status": 503, "text": "number of batch response mismatched"}, ()
        try:
            bodies = [encoded(reply) for reply in replies]
        except (TypeError, ValueError):
            traceback.print_exc()
            return FAILED, {"status": 503, "text": "Unable to serialize model output"}, ()
        told = [{"status": self.context.get_response_status(i)[0] or 200, "bytes": len(body),
                 "type": self.context.get_response_content_type(i) or kind} for i, (body, kind) in enumerate(bodies)]
        return REPLY, {"replies": told}, [body for body, _ in bodies]


def main():
    logging.basicConfig(stream=sys.stdout, format="%(message)s", level=logging.INFO)
    channel = Channel(3)
    ts.engine.connect(channel)
    handler = None
    while True:
        kind, said, data = channel.receive()
        if kind == LOAD:
            try:
                handler = Handler(said)
            except Exception as error:
                traceback.print_exc()
                channel.send(FAILED, {"text": f"{type(error).__name__}: {error}"})
                continue
            channel.send(LOADED, {})
        elif kind == PREDICT and handler:
            channel.cancelled = False
            channel.send(*handler.predict(said, data))
        elif kind == CANCEL:
            continue  # of a batch that was answered meanwhile
        else:
            os._exit(3)


if __name__ == "__main__":
    main()
