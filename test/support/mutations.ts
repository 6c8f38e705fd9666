import type { Random } from './random.js';

/** A message with a few bytes flipped, cut out, doubled or appended. */
export function mutate(bytes: Uint8Array, random: Random): Buffer {
  let message = Buffer.from(bytes);
  const at = () => random.below(message.length);
  for (let i = 0; i <= random.next() * 3; i++) {
    const kind = random.next();
    if (kind < 0.6) message[at()] = random.below(256);
    else if (kind < 0.75) message = Buffer.concat([message.subarray(0, at()), message.subarray(at())]);
    else if (kind < 0.9) message = Buffer.concat([message, message.subarray(at())]);
    else message = Buffer.concat([message, Buffer.from([random.below(256)])]);
    if (message.length === 0) message = Buffer.from([0]);
  }
  return message;
}

const STRANGE: readonly string[] = [
  ...['null', 'true', '0', '-1', '1', '2.5', '1e39', '1e400', '4294967296', '18446744073709551616'],
  ...['""', '"the"', '"\\ud800"', '[]', '[[]]', '[1,"a"]', '{}', '{"a":{}}'],
];

/** JSON of which some values are others. @param json as `JSON.stringify` writes it */
export function mutateValues(json: string, random: Random): string {
  const values = [...json.matchAll(/(?<=[:[,])(?:"[^"]*"(?!:)|-?[\d.]+|true|false)/g)];
  const value = values[random.below(values.length)];
  if (value === undefined) return json;
  const strange = STRANGE[random.below(STRANGE.length)] as string;
  return json.slice(0, value.index) + strange + json.slice(value.index + value[0].length);
}

/** True if bytes are a message. */
export function decodes(decode: (bytes: Buffer) => unknown, bytes: Buffer): boolean {
  try {
    decode(bytes);
    return true;
  } catch {
    return false;
  }
}
