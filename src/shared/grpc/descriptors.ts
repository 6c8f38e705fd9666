import { readFileSync } from 'node:fs';
import path from 'node:path';
import { BinaryReader, WireType } from '@bufbuild/protobuf/wire';
import { RocmForgeError } from '../errors.js';
import { packageRoot } from '../package.js';

/** `FileDescriptorSet.file` of google/protobuf/descriptor.proto. */
const FILE_FIELD = 1;

let read: readonly Uint8Array[] | undefined;

/**
 * The descriptors of everything public in `proto/`, and of what it imports, as buf has built them: one encoded
 * `google.protobuf.FileDescriptorProto` a file, after those that it imports. Source info is left out.
 *
 * @throws RocmForgeError `INTERNAL`: the build has not written them
 */
export function readDescriptorSet(): readonly Uint8Array[] {
  read ??= splitDescriptorSet(descriptorFile());
  return read;
}

function descriptorFile(): Buffer {
  const file = path.join(packageRoot, 'build', 'proto', 'descriptors.binpb');
  try {
    return readFileSync(file);
  } catch (error) {
    throw new RocmForgeError(
      'INTERNAL',
      `${(error as Error).message}; run "npm run build:proto", or reinstall the package`,
    );
  }
}

/** The files of an encoded `google.protobuf.FileDescriptorSet`, as they are. */
function splitDescriptorSet(bytes: Uint8Array): Uint8Array[] {
  const reader = new BinaryReader(bytes);
  const files: Uint8Array[] = [];
  while (reader.pos < reader.len) {
    const [field, wireType] = reader.tag();
    if (field === FILE_FIELD && wireType === WireType.LengthDelimited) files.push(reader.bytes());
    else reader.skip(wireType, field);
  }
  return files;
}
