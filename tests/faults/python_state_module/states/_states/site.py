def present(name):
    return {"name": name, "result": True, "changes": {}, "comment": ""}
