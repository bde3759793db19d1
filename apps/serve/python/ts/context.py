"""What a handler knows of its model, its requests and its replies."""
from ts.metrics.metrics_store import MetricsStore


class Context:
    def __init__(self, model_name, model_dir, manifest, batch_size, gpu, mms_version, limit_max_image_pixels=True,
                 metrics=None, model_yaml_config=None):
        self.model_name = model_name
        self.manifest = manifest
        self.model_yaml_config = model_yaml_config or {}
        self._system_properties = {
            "model_dir": model_dir, "gpu_id": gpu, "batch_size": batch_size, "server_name": "MMS",
            "server_version": mms_version, "limit_max_image_pixels": limit_max_image_pixels}
        self.request_ids = None
        self.request_processor = [RequestProcessor({})]
        self.metrics = metrics or MetricsStore(model_name)
        self.stopping_criteria = None
        self.cl_socket = None

    @property
    def system_properties(self):
        return self._system_properties

    def get_request_id(self, idx=0):
        return self.request_ids.get(idx)

    def get_request_header(self, idx, key):
        return self.request_processor[idx].get_request_property(key)

    def get_all_request_header(self, idx):
        return self.request_processor[idx].get_request_properties()

    def get_sequence_id(self, idx):
        return self.get_request_header(idx, "ts_request_sequence_id") or ""

    def get_response_status(self, idx):
        return self.request_processor[idx].get_response_status_code(), self.request_processor[idx].get_response_status_phrase()

    def set_response_status(self, code=200, phrase="", idx=0):
        if self.request_processor and self.request_processor[idx] is not None:
            self.request_processor[idx].report_status(code, reason_phrase=phrase)

    def set_all_response_status(self, code=200, phrase=""):
        for processor in self.request_processor:
            processor.report_status(code, reason_phrase=phrase)

    def set_response_content_type(self, idx, value):
        self.set_response_header(idx, "content-type", value)

    def get_response_content_type(self, idx):
        return self.get_response_headers(idx).get("content-type")

    def get_response_headers(self, idx):
        return self.request_processor[idx].get_response_headers()

    def set_response_header(self, idx, key, value):
        self.request_processor[idx].add_response_property(key, value)


class RequestProcessor:
    def __init__(self, request_header):
        self._headers = {name.lower(): value for name, value in request_header.items()}
        self._code, self._phrase, self._response = 200, None, {}

    def get_request_property(self, key):
        return self._headers.get(key.lower())

    def get_request_properties(self):
        return self._headers

    def report_status(self, code, reason_phrase=None):
        self._code, self._phrase = code, reason_phrase

    def get_response_status_code(self):
        return self._code

    def get_response_status_phrase(self):
        return self._phrase

    def add_response_property(self, key, value):
        self._response[key.lower()] = value

    def get_response_headers(self):
        return self._response

    def get_response_header(self):
        return self._response
