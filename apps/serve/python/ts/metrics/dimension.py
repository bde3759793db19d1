class Dimension:
    def __init__(self, name, value):
        self.name, self.value = name, value

    def __str__(self):
        return f"{self.name}:{self.value}"
