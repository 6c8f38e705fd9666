import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';

/** True if certificates can be made here: Node itself makes none. */
export const hasOpenssl = spawnSync('openssl', ['version']).status === 0;
if (!hasOpenssl) console.log('tests with certificates are skipped: there is no openssl command');

/** Files of a certificate and its key, and what is in them. */
export interface IssuedCertificate {
  readonly cert: string;
  readonly key: string;
  readonly certPem: Buffer;
  readonly keyPem: Buffer;
}

/** An authority, its certificate in a file. */
export interface TestAuthority {
  readonly ca: string;
  readonly caPem: Buffer;
  /**
   * @param dates when it is valid, default: now and for a day; addresses: of its holder, beside this machine's; holders: all
   *   alternative names, in place of those
   */
  issue(
    name: string,
    dates?: {
      readonly expired?: boolean;
      readonly addresses?: readonly string[];
      readonly holders?: readonly string[];
    },
  ): IssuedCertificate;
}

/** Makes an authority of its own. */
export function makeAuthority(name: string): TestAuthority {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
  const at = (file: string) => path.join(folder, file);
  const openssl = (...args: string[]) => execFileSync('openssl', args, { cwd: folder, stdio: 'pipe' });
  const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];
  openssl('req', '-x509', ...newKey, '-subj', `/CN=${name}`, '-keyout', 'ca.key', '-out', 'ca.pem', '-days', '2');
  let issued = 0;
  return {
    ca: at('ca.pem'),
    caPem: readFileSync(at('ca.pem')),
    issue: (commonName, { expired = false, addresses = [], holders } = {}) => {
      const file = `${issued++}`;
      openssl('req', ...newKey, '-subj', `/CN=${commonName}`, '-keyout', `${file}.key`, '-out', `${file}.csr`);
      const here = ['DNS:localhost', ...['127.0.0.1', ...addresses].map((address) => `IP:${address}`)];
      writeFileSync(at('names'), `subjectAltName=${(holders ?? here).join(',')}\n`);
      const days = expired ? '-1' : '1';
      const by = ['-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial', '-extfile', 'names', '-days', days];
      openssl('x509', '-req', '-in', `${file}.csr`, ...by, '-out', `${file}.pem`);
      const [cert, key] = [at(`${file}.pem`), at(`${file}.key`)];
      return { cert, key, certPem: readFileSync(cert), keyPem: readFileSync(key) };
    },
  };
}
