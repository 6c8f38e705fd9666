import { grouped, type OptionValues, option } from '../../shared/option-table.js';
import { text, texts } from '../../shared/option-types.js';

/** Files that say who may call, how much, and over what. Each is read again when it changes. */
export const TRUST_OPTIONS = grouped('Access:', {
  tokenFile: option(
    '<file>',
    text,
    'bearer tokens (API keys): lines of NAME sha256:HEX, as rocmforge token writes them',
  ),
  jwksFile: option('<file>', text, 'public keys (JWKS) that verify JWTs'),
  jwtIssuer: option('<issuer>', text, 'issuer (iss) that a JWT must have', { reported: 'host' }),
  jwtAudience: option('<audience>', text, 'audience (aud) that a JWT must have'),
  limitsFile: option('<file>', text, 'rate and concurrency limits per client, in JSON'),
  tlsCert: option('<file>', text, 'serve TLS with this certificate (PEM)'),
  tlsKey: option('<file>', text, 'private key of --tls-cert (PEM)'),
  tlsClientCa: option('<file>', text, 'require client certificates signed by these authorities (PEM)'),
  trustedProxies: option(
    '<addresses...>',
    texts,
    'proxies whose X-Forwarded-For or Forwarded is accepted: IP addresses, networks such as 10.0.0.0/8, or unix for the socket file',
  ),
});

export type TrustOptions = OptionValues<typeof TRUST_OPTIONS>;
