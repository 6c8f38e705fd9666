// An animated WebP of still pictures in WebP, as the container's specification has it: https://developers.google.com/speed/webp/docs/riff_container

/** @param {string} type four characters @param {Buffer} payload */
function chunk(type, payload) {
  const head = Buffer.alloc(8);
  head.write(type, 'latin1');
  head.writeUInt32LE(payload.length, 4);
  return Buffer.concat([head, payload, Buffer.alloc(payload.length % 2)]);
}

/** @param {number} value below 2 ** 24 */
function threeBytes(value) {
  const bytes = Buffer.alloc(3);
  bytes.writeUIntLE(value, 0, 3);
  return bytes;
}

/** The chunks of a still picture that hold its pixels. @param {Buffer} file */
function pixelChunks(file) {
  const found = [];
  for (let at = 12; at < file.length; ) {
    const type = file.toString('latin1', at, at + 4);
    const end = at + 8 + file.readUInt32LE(at + 4);
    if (['VP8 ', 'VP8L', 'ALPH'].includes(type)) found.push(chunk(type, file.subarray(at + 8, end)));
    at = end + (end % 2);
  }
  return Buffer.concat(found);
}

/**
 * @param {readonly { readonly file: Buffer, readonly ms: number }[]} frames still pictures of one size and how long each is shown
 * @param {{ readonly width: number, readonly height: number }} size pixels
 * @returns {Buffer} a file that plays without end
 */
export function animatedWebp(frames, { width, height }) {
  const size = Buffer.concat([threeBytes(width - 1), threeBytes(height - 1)]);
  const animation = 0x02;
  const header = chunk('VP8X', Buffer.concat([Buffer.from([animation, 0, 0, 0]), size]));
  // White behind the frames, and no last loop.
  const loop = chunk('ANIM', Buffer.from([255, 255, 255, 255, 0, 0]));
  const pictures = frames.map(({ file, ms }) =>
    // Each frame replaces the one before: it is not blended with it.
    chunk(
      'ANMF',
      Buffer.concat([threeBytes(0), threeBytes(0), size, threeBytes(ms), Buffer.from([0x02]), pixelChunks(file)]),
    ),
  );
  const body = Buffer.concat([Buffer.from('WEBP'), header, loop, ...pictures]);
  const head = Buffer.alloc(8);
  head.write('RIFF', 'latin1');
  head.writeUInt32LE(body.length, 4);
  return Buffer.concat([head, body]);
}
