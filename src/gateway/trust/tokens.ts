import { createHash, createHmac, randomBytes } from 'node:crypto';
import { RocmForgeError } from '../../shared/errors.js';

const LINE = /^([A-Za-z0-9._-]{1,64}) sha256:([0-9a-f]{64})$/;
const TOKEN_BYTES = 32;
/** Tells what a string is to people and to scanners for secrets that were published. */
const PREFIX = 'rf_';

/**
 * The bearer tokens of a file: lines `NAME sha256:HEX`, the hash of the token. Several lines of one name are tokens of one
 * principal, so that one can be replaced by another without a pause.
 */
export class BearerTokens {
  /** Makes what is looked up something that nobody outside can choose: how long a look-up takes says nothing of a hash. */
  private readonly blind = randomBytes(TOKEN_BYTES);
  private readonly names = new Map<string, string>();

  /**
   * @param mayBeEmpty true where all tokens may have been revoked
   * @throws RocmForgeError `INVALID_OPTION`, naming the first line that is not understood
   */
  constructor(path: string, text: string, mayBeEmpty = false) {
    const lines = text.split('\n');
    if (lines.at(-1) === '') lines.pop();
    lines.forEach((line, i) => {
      const [, name, hash] = LINE.exec(line) ?? [];
      const where = `line ${i + 1} of ${path}`;
      if (name === undefined || hash === undefined) {
        throw new RocmForgeError('INVALID_OPTION', `${where} is not NAME sha256:HEX; rocmforge token NAME writes one`);
      }
      const key = this.blinded(hash);
      if (this.names.has(key)) {
        throw new RocmForgeError('INVALID_OPTION', `${where} has the hash of a line before it; remove one of them`);
      }
      this.names.set(key, name);
    });
    if (lines.length === 0 && !mayBeEmpty) {
      throw new RocmForgeError('INVALID_OPTION', `${path} holds no token; rocmforge token NAME writes a line`);
    }
  }

  /** The name of a token; undefined for one that is not among these. */
  nameOf(token: string): string | undefined {
    return this.names.get(this.blinded(hashOf(token)));
  }

  /** True if some token is of that name. */
  hasName(name: string): boolean {
    return [...this.names.values()].includes(name);
  }

  private blinded(hash: string): string {
    return createHmac('sha256', this.blind).update(hash).digest('base64');
  }
}

/**
 * A new random token and its line for a file of tokens.
 *
 * @throws RocmForgeError `INVALID_OPTION` for what is not a name
 */
export function newToken(name: string): { readonly token: string; readonly line: string } {
  const token = PREFIX + randomBytes(TOKEN_BYTES).toString('base64url');
  const line = `${name} sha256:${hashOf(token)}`;
  if (LINE.test(line)) return { token, line };
  throw new RocmForgeError('INVALID_OPTION', `"${name}" is not a name; use at most 64 letters, digits, dots, _ and -`);
}

function hashOf(token: string): string {
  return createHash('sha256').update(token).digest('hex');
}
