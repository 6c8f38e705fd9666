"""What the tests use of OpenAI's client: chat and text completions, whole or streamed."""
import json
import types
import requests


class _Object(types.SimpleNamespace):
    def __getattr__(self, name):
        return None


def _object(value):
    if isinstance(value, dict):
        return _Object(**{name: _object(item) for name, item in value.items()})
    if isinstance(value, list):
        return [_object(item) for item in value]
    return value


class _Create:
    def __init__(self, client, path):
        self._client, self._path = client, path

    def create(self, extra_body=None, **fields):
        body = {**fields, **(extra_body or {})}
        headers = {"Authorization": f"Bearer {self._client.api_key}"}
        stream = bool(body.get("stream"))
        answer = requests.post(self._client.base_url + self._path, json=body, headers=headers, stream=stream)
        if answer.status_code != 200:
            raise Exception(f"{answer.status_code} {answer.text}")
        return self._events(answer) if stream else _object(answer.json())

    @staticmethod
    def _events(answer):
        for line in answer.iter_lines():
            if line.startswith(b"data: ") and line != b"data: [DONE]":
                yield _object(json.loads(line[6:]))


class OpenAI:
    def __init__(self, api_key="", base_url="", **_):
        self.api_key, self.base_url = api_key, base_url.rstrip("/")
        self.chat = types.SimpleNamespace(completions=_Create(self, "/chat/completions"))
        self.completions = _Create(self, "/completions")
        self.embeddings = _Create(self, "/embeddings")
        self.models = types.SimpleNamespace(list=lambda: _object(requests.get(self.base_url + "/models").json()))
