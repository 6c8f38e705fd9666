// Contents of an ELF64 image of kernels: the symbols a loader finds, and for each GPU kernel its arguments,
// wave size, registers, shared memory and spills.
import { decode } from '@msgpack/msgpack';

const SHT_SYMTAB = 2;
const SHT_NOTE = 7;
const SHT_DYNSYM = 11;
const EM_CUDA = 190;

/** @returns {{name: string, type: number, link: number, info: number, offset: number, bytes: number}[]} */
function sectionsOf(image) {
  const start = Number(image.readBigUInt64LE(0x28));
  const [entryBytes, count, names] = [0x3a, 0x3c, 0x3e].map((at) => image.readUInt16LE(at));
  const sections = Array.from({ length: count }, (_, i) => {
    const at = start + i * entryBytes;
    return {
      nameAt: image.readUInt32LE(at),
      type: image.readUInt32LE(at + 4),
      offset: Number(image.readBigUInt64LE(at + 0x18)),
      bytes: Number(image.readBigUInt64LE(at + 0x20)),
      link: image.readUInt32LE(at + 0x28),
      info: image.readUInt32LE(at + 0x2c),
    };
  });
  return sections.map((section) => ({ ...section, name: stringAt(image, sections[names].offset + section.nameAt) }));
}

const stringAt = (image, at) => image.toString('latin1', at, image.indexOf(0, at));
const isCubin = (image) => image.readUInt16LE(0x12) === EM_CUDA;

/**
 * Names in the symbol table that a loader looks in: the dynamic one; the only one of a cubin.
 *
 * @param {Buffer} image
 * @returns {Set<string>}
 */
export function loadableSymbols(image) {
  const names = new Set();
  const SYMBOL_BYTES = 24;
  const sections = sectionsOf(image);
  for (const { offset, bytes, link } of sections.filter(
    ({ type }) => type === (isCubin(image) ? SHT_SYMTAB : SHT_DYNSYM),
  )) {
    for (let at = offset; at < offset + bytes; at += SYMBOL_BYTES) {
      names.add(stringAt(image, sections[link].offset + image.readUInt32LE(at)));
    }
  }
  return names;
}

/**
 * The kernels of a code object, in the order of their names.
 *
 * @param {Buffer} image
 * @returns {{name: string, arguments: {offset: number, bytes: number, kind: 'buffer' | 'scalar'}[], wave: number,
 *   vgprs: number, sgprs: number, lds: number, scratch: number, vgprSpills: number}[]} register counts a thread (vector)
 *   and a wave (scalar); lds and scratch in bytes, scratch a thread. A cubin does not tell kinds or spills apart: its
 *   arguments of 8 bytes count as buffers, and scratch includes spills
 */
export function readKernels(image) {
  const kernels = isCubin(image) ? nvidiaKernels(image) : amdKernels(image);
  return kernels.sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** From the AMDGPU metadata note: MessagePack, as LLVM's "User Guide for AMDGPU Backend" lays it out. */
function amdKernels(image) {
  const NT_AMDGPU_METADATA = 32;
  const align = (n) => (n + 3) & ~3;
  for (const { offset, bytes } of sectionsOf(image).filter(({ type }) => type === SHT_NOTE)) {
    for (let at = offset; at < offset + bytes; ) {
      const [nameBytes, descriptorBytes, type] = [0, 4, 8].map((i) => image.readUInt32LE(at + i));
      const descriptor = at + 12 + align(nameBytes);
      at = descriptor + align(descriptorBytes);
      if (type !== NT_AMDGPU_METADATA) continue;
      const metadata = /** @type {any} */ (decode(image.subarray(descriptor, descriptor + descriptorBytes)));
      return metadata['amdhsa.kernels'].map((kernel) => ({
        name: kernel['.name'],
        arguments: (kernel['.args'] ?? [])
          .filter((argument) => !argument['.value_kind'].startsWith('hidden_'))
          .map((argument) => ({
            offset: argument['.offset'],
            bytes: argument['.size'],
            kind: argument['.value_kind'] === 'global_buffer' ? 'buffer' : 'scalar',
          })),
        wave: kernel['.wavefront_size'],
        // On CDNA accumulation registers are counted in.
        vgprs: kernel['.vgpr_count'],
        sgprs: kernel['.sgpr_count'],
        lds: kernel['.group_segment_fixed_size'],
        scratch: kernel['.private_segment_fixed_size'],
        vgprSpills: kernel['.vgpr_spill_count'],
      }));
    }
  }
  throw new Error('it holds no AMDGPU metadata');
}

/** From the .nv.info sections of a cubin: entries of a format byte, an attribute byte and a 16-bit size or value. */
function nvidiaKernels(image) {
  const [WITH_PAYLOAD, PARAMETER, FRAME_SIZE, REGISTERS] = [4, 0x17, 0x11, 0x2f];
  const sections = sectionsOf(image);
  const entries = ({ offset, bytes }) => {
    const found = [];
    for (let at = offset; at < offset + bytes; ) {
      const [format, attribute, size] = [image[at], image[at + 1], image.readUInt16LE(at + 2)];
      const payload = format === WITH_PAYLOAD ? image.subarray(at + 4, at + 4 + size) : Buffer.alloc(0);
      found.push({ attribute, payload });
      at += 4 + payload.length;
    }
    return found;
  };
  const shared = new Map(sections.map(({ name, bytes }) => [name, bytes]));
  const scratch = new Map();
  const registers = new Map();
  const symbols = sections.find(({ type }) => type === SHT_SYMTAB);
  if (symbols === undefined) throw new Error('the cubin has no symbol table');
  const symbolName = (index) =>
    stringAt(image, sections[symbols.link].offset + image.readUInt32LE(symbols.offset + index * 24));
  for (const section of sections.filter(({ name }) => name === '.nv.info')) {
    for (const { attribute, payload } of entries(section)) {
      if (attribute === FRAME_SIZE) scratch.set(symbolName(payload.readUInt32LE(0)), payload.readUInt32LE(4));
      if (attribute === REGISTERS) registers.set(symbolName(payload.readUInt32LE(0)), payload.readUInt32LE(4));
    }
  }
  const PREFIX = '.nv.info.';
  return sections
    .filter(({ name }) => name.startsWith(PREFIX))
    .map((section) => {
      const name = section.name.slice(PREFIX.length);
      const parameters = entries(section)
        .filter(({ attribute }) => attribute === PARAMETER)
        .map(({ payload }) => ({ offset: payload.readUInt16LE(6), bytes: payload.readUInt32LE(8) >>> 18 }))
        .sort((a, b) => a.offset - b.offset);
      return {
        name,
        arguments: parameters.map(({ offset, bytes }) => ({ offset, bytes, kind: bytes === 8 ? 'buffer' : 'scalar' })),
        wave: 32,
        vgprs: registers.get(name) ?? 0,
        sgprs: 0,
        lds: shared.get(`.nv.shared.${name}`) ?? 0,
        scratch: scratch.get(name) ?? 0,
        vgprSpills: 0,
      };
    });
}
