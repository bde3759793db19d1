"""VisionHandler, as TorchServe has it: pictures of the requests to one tensor."""
import base64
import io
from abc import ABC

from ts.torch_handler.base_handler import BaseHandler, find_torch

torch = find_torch()


def centre_crop(image, size=256, crop=224):
    """torchvision's Resize(256), CenterCrop(224) and ToTensor, by Pillow: an array [3, 224, 224] of 0 to 1."""
    import numpy
    from PIL import Image
    width, height = image.size
    if width < height:
        image = image.resize((size, int(size * height / width)), Image.BILINEAR)
    else:
        image = image.resize((int(size * width / height), size), Image.BILINEAR)
    left, top = round((image.width - crop) / 2), round((image.height - crop) / 2)
    image = image.convert("RGB").crop((left, top, left + crop, top + crop))
    return (numpy.asarray(image, dtype="float32") / numpy.float32(255)).transpose(2, 0, 1)


def imagenet(image):
    """The same, normalised as torchvision's models want it."""
    import numpy
    mean, std = numpy.float32([0.485, 0.456, 0.406]), numpy.float32([0.229, 0.224, 0.225])
    pixels = (centre_crop(image) - mean[:, None, None]) / std[:, None, None]
    return torch.from_numpy(pixels) if torch else pixels


class VisionHandler(BaseHandler, ABC):
    def initialize(self, context):
        super().initialize(context)

    def preprocess(self, data):
        from PIL import Image
        images = []
        for row in data:
            image = row.get("data") or row.get("body")
            if isinstance(image, str):
                image = base64.b64decode(image)
            if isinstance(image, (bytearray, bytes)):
                image = self.image_processing(Image.open(io.BytesIO(image)))
            elif torch:
                image = torch.FloatTensor(image)
            images.append(image)
        if torch:
            return torch.stack([image if isinstance(image, torch.Tensor) else torch.as_tensor(image)
                                for image in images]).to(self.device)
        import numpy
        return numpy.stack([numpy.asarray(image, dtype="float32") for image in images])
