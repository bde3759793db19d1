"""ImageSegmenter, as TorchServe has it, for models that torch computes."""
from ts.torch_handler.vision_handler import VisionHandler, imagenet, torch


class ImageSegmenter(VisionHandler):
    def image_processing(self, image):
        return imagenet(image)

    def postprocess(self, data):
        scores = data["out"] if isinstance(data, dict) else data[0] if isinstance(data, tuple) else data
        probs, classes = torch.max(torch.nn.functional.softmax(scores, dim=1), dim=1)
        return torch.stack([classes.type(probs.dtype), probs], dim=3).tolist()
