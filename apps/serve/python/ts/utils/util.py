"""Helpers of handlers: labels, classes of modules, YAML."""
import inspect
import itertools
import json
import logging
import os
import re

logger = logging.getLogger(__name__)
CLEANUP_REGEX = re.compile("<.*?>|&([a-z0-9]+|#[0-9]{1,6}|#x[0-9a-f]{1,6});")


class PredictionException(Exception):
    def __init__(self, message, error_code=500):
        self.message = message
        self.error_code = error_code
        super().__init__(message)

    def __str__(self):
        return f"{self.message} : {self.error_code}"


def list_classes_from_module(module, parent_class=None):
    classes = [c for _, c in inspect.getmembers(module, inspect.isclass) if c.__module__ == module.__name__]
    return [c for c in classes if parent_class is None or issubclass(c, parent_class)]


def check_valid_pt2_backend(backend):
    """Does torch.compile know it?"""
    import torch
    known = backend in torch.compiler.list_backends(exclude_tags=())
    if not known:
        logger.warning(f"{backend} is not a supported backend")
    return known


def load_label_mapping(mapping_file_path, is_local=False):
    """{"0": "label", ...} of index_to_name.json; None: there is no such file."""
    if not os.path.isfile(mapping_file_path):
        return None
    with open(mapping_file_path) as file:
        mapping = json.load(file)
    if not isinstance(mapping, dict):
        raise TypeError("index_to_name mapping should be in \"class\":\"label\" json format")
    if isinstance(mapping.get("object_type_names"), list):
        return {str(i): label for i, label in enumerate(mapping["object_type_names"])}
    for key, value in mapping.items():
        label = value[-1] if isinstance(value, list) else value
        if not isinstance(label, str):
            raise TypeError("labels in index_to_name must be either str or [str]")
        mapping[key] = label
    return mapping


def map_class_to_label(probs, mapping=None, lbl_classes=None):
    """A dict from label to probability for each sample."""
    if not isinstance(probs, list):
        raise TypeError("Convert classes to list before doing mapping")
    if lbl_classes is None:
        lbl_classes = itertools.repeat(range(len(probs[0])), len(probs))
    return [{(mapping[str(lbl_class)] if mapping is not None else str(lbl_class)): prob
             for lbl_class, prob in zip(*row)} for row in zip(lbl_classes, probs)]


def get_yaml_config(yaml_file_path):
    try:
        import yaml
    except ImportError:
        logger.warning("context.model_yaml_config is empty, since this Python has no package yaml (PyYAML)")
        return {}
    with open(yaml_file_path) as file:
        return yaml.safe_load(file) or {}
