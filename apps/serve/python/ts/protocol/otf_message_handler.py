import json

import ts.engine


def encoded(reply):
    """The bytes of a reply, and what they are unless the handler has said so."""
    if isinstance(reply, (bytes, bytearray)):
        return reply, "application/octet-stream"
    if isinstance(reply, str):
        return reply.encode(), "text/plain; charset=utf-8"
    return json.dumps(reply, indent=2).encode(), "application/json"


def send_intermediate_predict_response(ret, req_id_map, message, code, context=None):
    """Gives a part of each reply of the batch; the rest is what `handle` returns."""
    parts = [encoded(ret[index]) for index in req_id_map]
    told = [{"bytes": len(body), "type": kind} for body, kind in parts]
    for index, part in zip(req_id_map, told if context else ()):
        part["type"] = context.get_response_content_type(index) or part["type"]
        part["status"] = context.get_response_status(index)[0] or 200
    ts.engine.give_parts(told, [body for body, _ in parts])
