"""ImageClassifier, as TorchServe has it: the likeliest classes."""
from ts.torch_handler.vision_handler import VisionHandler, imagenet, torch
from ts.utils.util import map_class_to_label


class ImageClassifier(VisionHandler):
    topk = 5

    def image_processing(self, image):
        return imagenet(image)

    def set_max_result_classes(self, topk):
        self.topk = topk

    def get_max_result_classes(self):
        return self.topk

    def postprocess(self, data):
        if torch and isinstance(data, torch.Tensor):
            probs, classes = torch.topk(torch.nn.functional.softmax(data, dim=1), min(self.topk, data.shape[1]), dim=1)
            return map_class_to_label(probs.tolist(), self.mapping, classes.tolist())
        import numpy
        shares = numpy.exp(data - data.max(axis=1, keepdims=True))
        shares = shares / shares.sum(axis=1, keepdims=True)
        classes = numpy.argsort(-shares, axis=1, kind="stable")[:, :self.topk]
        return map_class_to_label(numpy.take_along_axis(shares, classes, 1).tolist(), self.mapping, classes.tolist())
