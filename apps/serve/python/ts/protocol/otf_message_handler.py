def send_intermediate_predict_response(*args, **named):
    raise RuntimeError("treadle serve does not stream replies of handlers: give the whole reply")
