"""BaseHandler, as TorchServe has it; a serialized model is computed by the server, a model in Python by torch."""
import importlib
import os
import sys
import time
from abc import ABC

import ts.engine
from ts.utils.util import check_valid_pt2_backend, list_classes_from_module, load_label_mapping


def find_torch():
    """The package where it is installed, else None. Who has not imported it yet is not made to wait for it."""
    try:
        return importlib.import_module("torch")
    except ImportError:
        return None


def _as_tensor(data, device):
    torch = find_torch()
    if torch:
        return torch.as_tensor(data, device=device)
    try:
        import numpy
    except ImportError:
        return data
    return numpy.asarray(data)


class BaseHandler(ABC):
    def __init__(self):
        self.model = None
        self.mapping = None
        self.device = None
        self.map_location = "cpu"
        self.initialized = False
        self.context = None
        self.manifest = None
        self.explain = False
        self.target = 0
        self.model_pt_path = None
        self.profiler_args = {}

    def initialize(self, context):
        torch = sys.modules.get("torch")
        self.context = context
        self.model_yaml_config = context.model_yaml_config
        self.manifest = context.manifest
        self.device = torch.device("cpu") if torch else "cpu"
        model_dir = context.system_properties.get("model_dir")
        model = self.manifest["model"]
        if model.get("serializedFile"):
            self.model_pt_path = os.path.join(model_dir, model["serializedFile"])
        if model.get("modelFile"):
            self.model = self._load_pickled_model(model_dir, model["modelFile"], self.model_pt_path)
            self.model.to(self.device)
            self.model.eval()
            self._compile()
        elif self.model_pt_path:
            self.model = self._load_torchscript_model(self.model_pt_path)
        self.mapping = load_label_mapping(os.path.join(model_dir, "index_to_name.json"))
        self.initialized = True

    def _compile(self):
        """As `pt2` of model-config.yaml says; a model that the server computes is compiled without it."""
        options = self.model_yaml_config.get("pt2")
        options = {"backend": options} if isinstance(options, str) else dict(options or {})
        options = options if "compile" not in options else dict(options["compile"])
        if not options or "export" in options or not options.pop("enable", True):
            return
        if "backend" not in options or check_valid_pt2_backend(options["backend"]):
            self.model = find_torch().compile(self.model, **options)

    def _load_torchscript_model(self, model_pt_path):
        return ts.engine.Model(model_pt_path)

    def _load_pickled_model(self, model_dir, model_file, model_pt_path):
        torch = find_torch()
        if not torch:
            raise RuntimeError(f"{model_file} is a model in Python, which needs torch: install it, or archive the model as "
                               "TorchScript or ONNX")
        path = os.path.join(model_dir, model_file)
        if not os.path.isfile(path):
            raise RuntimeError(f"{model_file} is missing")
        classes = list_classes_from_module(importlib.import_module(model_file.split(".")[0]))
        if len(classes) != 1:
            raise ValueError(f"Expected only one class as model definition. {classes}")
        model = classes[0]()
        if model_pt_path:
            model.load_state_dict(torch.load(model_pt_path, map_location="cpu", weights_only=True))
        return model

    def preprocess(self, data):
        return _as_tensor(data, self.device)

    def inference(self, data, *args, **kwargs):
        torch = sys.modules.get("torch")
        if not torch:
            return self.model(data, *args, **kwargs)
        with torch.no_grad():
            marshalled = data.to(self.device) if isinstance(data, torch.Tensor) else data
            return self.model(marshalled, *args, **kwargs)

    def postprocess(self, data):
        return data.tolist() if hasattr(data, "tolist") else data

    def handle(self, data, context):
        start = time.time()
        self.context = context
        rows = self.preprocess(data)
        output = self.explain_handle(rows, data) if self._is_explain() else self.postprocess(self.inference(rows))
        context.metrics.add_time("HandlerTime", round((time.time() - start) * 1000, 2), None, "ms")
        return output

    def explain_handle(self, data_preprocess, raw_data):
        if not hasattr(self, "get_insights"):
            raise RuntimeError("this handler has no get_insights, which explanations come from")
        row = raw_data[0]
        inputs = (row.get("data") or row.get("body")) if isinstance(row, dict) else None
        target = row.get("target") if isinstance(row, dict) else None
        return self.get_insights(data_preprocess, inputs, target or 0)

    def _is_explain(self):
        return self.context.get_request_header(0, "explain") == "True"

    def describe_handle(self):
        return {}
