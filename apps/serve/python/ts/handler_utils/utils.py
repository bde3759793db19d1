import importlib

from ts.protocol.otf_message_handler import send_intermediate_predict_response  # noqa: F401


def import_class(class_name, module_prefix=None):
    module, _, name = class_name.rpartition(".")
    if module_prefix:
        module = f"{module_prefix}.{module}" if module else module_prefix
    return getattr(importlib.import_module(module), name)
