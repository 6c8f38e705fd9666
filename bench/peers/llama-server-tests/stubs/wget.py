def download(*args, **kwargs):
    raise OSError("nothing can be downloaded here")
