import { expect, it } from 'vitest';
import { checkOrigins } from '../../src/cli/serve/origins.js';

it.each([
  '*',
  'localhost',
  'null',
  'https://chat.example',
  'http://127.0.0.1:8080',
  'http://[::1]:3000',
  'chrome-extension://abcdefghijklmnop',
  'tauri://localhost',
])('%s is an origin', (origin) => {
  expect(() => checkOrigins([origin])).not.toThrow();
});

it.each([
  ['foo', 'give SCHEME://HOST or SCHEME://HOST:PORT, localhost, or * for all'],
  ['', 'give SCHEME://HOST'],
  ['chat.example', 'give SCHEME://HOST'],
  ['localhost:3000', 'give SCHEME://HOST'],
  ['file:///home', 'give SCHEME://HOST'],
  ['https://*.example', 'give SCHEME://HOST'],
  ['https://chat.example/', 'give https://chat.example'],
  ['https://chat.example/page', 'give https://chat.example'],
  ['https://Chat.Example', 'give https://chat.example'],
  ['https://chat.example:443', 'give https://chat.example'],
  ['https://a.example,https://b.example', 'give SCHEME://HOST'],
])('%s is not the origin of a web page', (origin, help) => {
  expect(() => checkOrigins(['*', origin])).toThrow(
    `--cors-origins ${origin} is not the origin of a web page; ${help}`,
  );
});
