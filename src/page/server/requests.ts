import { token, urlOf } from './address.js';
import { type ErrorBody, errorOf } from './server-error.js';

const headers = (): Record<string, string> => ({
  'content-type': 'application/json',
  ...(token.value !== undefined && { authorization: `Bearer ${token.value}` }),
});

/**
 * Sends a request. A body is JSON text.
 *
 * @throws ServerError for an error response; TypeError if the server cannot be reached
 */
export async function request(path: string, body?: string, signal?: AbortSignal): Promise<Response> {
  const response = await fetch(urlOf(path), {
    method: body === undefined ? 'GET' : 'POST',
    headers: headers(),
    credentials: 'same-origin',
    cache: 'no-store',
    ...(body !== undefined && { body }),
    ...(signal !== undefined && { signal }),
  });
  if (response.ok) return response;
  const parsed = (await response.json().catch(() => undefined)) as { error?: ErrorBody } | undefined;
  throw errorOf(parsed?.error ?? { message: `the server answered ${response.status}` }, response.status);
}

/** JSON of a path. @throws as {@link request} */
export async function json<T>(path: string, body?: string): Promise<T> {
  return (await request(path, body)).json() as Promise<T>;
}
