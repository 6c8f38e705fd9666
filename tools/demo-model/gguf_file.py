"""Writes and reads the part of the GGUF format (version 3) that the demo model needs: F32 and F16 tensors."""
import struct

import numpy as np

U32, I32, F32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
TYPE_F32, TYPE_F16 = 0, 1
ALIGNMENT = 32
_ELEMENTS = {TYPE_F32: '<f4', TYPE_F16: '<f2'}
_SCALARS = {U32: '<I', I32: '<i', F32: '<f', BOOL: '<?'}


def _string(text):
    data = text.encode()
    return struct.pack('<Q', len(data)) + data


def _value(kind, value):
    return _string(value) if kind == STRING else struct.pack(_SCALARS[kind], value)


def write(path, metadata, tensors):
    """Writes a model.

    metadata: (key, type, value) triples, an array being (key, (ARRAY, element type), values);
    tensors: (name, numpy array, TYPE_F32 or TYPE_F16) triples, arrays in row-major [out, in] order.
    """
    head = struct.pack('<4sIQQ', b'GGUF', 3, len(tensors), len(metadata))
    for key, kind, value in metadata:
        if isinstance(kind, tuple):
            body = struct.pack('<IIQ', ARRAY, kind[1], len(value)) + b''.join(_value(kind[1], item) for item in value)
        else:
            body = struct.pack('<I', kind) + _value(kind, value)
        head += _string(key) + body
    blobs, offset = [], 0
    for name, array, kind in tensors:
        blob = np.ascontiguousarray(array, _ELEMENTS[kind]).tobytes()
        head += _string(name) + struct.pack('<I', array.ndim)
        head += b''.join(struct.pack('<Q', size) for size in reversed(array.shape)) + struct.pack('<IQ', kind, offset)
        blobs.append(blob + bytes(-len(blob) % ALIGNMENT))
        offset += len(blobs[-1])
    with open(path, 'wb') as file:
        file.write(head + bytes(-len(head) % ALIGNMENT) + b''.join(blobs))


def read(path):
    """The metadata {key: value} and the tensors {name: f32 array, row-major} of a file that `write` wrote."""
    with open(path, 'rb') as file:
        data = file.read()
    magic, version, tensor_count, key_count = struct.unpack_from('<4sIQQ', data)
    assert magic == b'GGUF' and version == 3, f'{path} is not a GGUF v3 file'
    position = 24

    def take(layout):
        nonlocal position
        value, = struct.unpack_from(layout, data, position)
        position += struct.calcsize(layout)
        return value

    def text():
        nonlocal position
        size = take('<Q')
        position += size
        return data[position - size:position].decode()

    def value(kind):
        if kind == STRING:
            return text()
        if kind == ARRAY:
            element, count = take('<I'), take('<Q')
            return [value(element) for _ in range(count)]
        return take(_SCALARS[kind])

    metadata, infos = {}, []
    for _ in range(key_count):
        key = text()
        metadata[key] = value(take('<I'))
    for _ in range(tensor_count):
        name = text()
        shape = [take('<Q') for _ in range(take('<I'))][::-1]
        infos.append((name, shape, take('<I'), take('<Q')))
    start = position + -position % ALIGNMENT
    tensors = {}
    for name, shape, kind, offset in infos:
        count, at = int(np.prod(shape)), start + offset
        tensors[name] = np.frombuffer(data, _ELEMENTS[kind], count, at).astype(np.float32).reshape(shape)
    return metadata, tensors
