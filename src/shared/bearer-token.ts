/**
 * Position, from 1, of the first character that no bearer token may have: a header holds visible ASCII characters, and a space would end
 * the token. Undefined for a text that can be sent.
 */
export function illegalPosition(token: string): number | undefined {
  const at = token.search(/[^\x21-\x7e]/);
  return at === -1 ? undefined : at + 1;
}
