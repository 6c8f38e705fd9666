import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto';
import { createSecureContext } from 'node:tls';
import { RocmForgeError } from './errors.js';
import type { Logger } from './log.js';
import { ReloadedFiles } from './reloaded-files.js';

/** Files of a server's identity, in PEM. */
export interface TlsFiles {
  /** The certificate, and after it those that link it to its authority. */
  readonly cert: string;
  readonly key: string;
  /** Authorities of the certificates that clients must have; absent: clients need none. */
  readonly clientCa?: string | undefined;
}

/** Options of Node's TLS servers, TCP, HTTP/1.1 and HTTP/2 alike: `createServer` and `setSecureContext`. */
export interface TlsIdentity {
  readonly cert: string;
  readonly key: string;
  readonly ca?: string | undefined;
}

/**
 * A server's certificate, read again when its files change; a server hands what {@link ReloadedFiles.onChange} tells to
 * `setSecureContext`, and connections that are open stay.
 */
export type TlsMaterial = ReloadedFiles<TlsIdentity>;

/** The oldest protocol that is spoken. */
export const TLS_MIN_VERSION = 'TLSv1.2';

/** @throws RocmForgeError `INVALID_OPTION` when the files are no certificate and its key */
export function openTlsMaterial(files: TlsFiles, log: Logger): TlsMaterial {
  const { cert, key, clientCa } = files;
  const named = [
    { option: 'tls-cert', path: cert },
    { option: 'tls-key', path: key },
    ...(clientCa === undefined ? [] : [{ option: 'tls-client-ca', path: clientCa }]),
  ];
  return new ReloadedFiles(
    named,
    ([certText = '', keyText = '', caText]) => {
      const certificate = readCertificates(cert, certText)[0] as X509Certificate;
      if (!certificate.checkPrivateKey(readKey(key, keyText))) {
        throw new RocmForgeError('INVALID_OPTION', `the key in ${key} is not that of the certificate in ${cert}`);
      }
      if (caText !== undefined) readCertificates(clientCa as string, caText);
      const identity: TlsIdentity = { cert: certText, key: keyText, ca: caText };
      attempt(`${cert} and ${key} cannot be used for TLS`, () => createSecureContext(identity));
      return identity;
    },
    log,
  );
}

/** @throws RocmForgeError `INVALID_OPTION` unless the text is one certificate or several */
export function readCertificates(path: string, text: string): readonly X509Certificate[] {
  const blocks = text.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];
  if (blocks.length === 0) throw new RocmForgeError('INVALID_OPTION', `${path} holds no certificate in PEM`);
  return blocks.map((block) => attempt(`${path} holds a bad certificate`, () => new X509Certificate(block)));
}

function readKey(path: string, text: string): KeyObject {
  return attempt(`${path} holds no private key in PEM, or one under a password`, () => createPrivateKey(text));
}

function attempt<R>(what: string, read: () => R): R {
  try {
    return read();
  } catch (error) {
    throw new RocmForgeError('INVALID_OPTION', `${what}: ${(error as Error).message}`);
  }
}
