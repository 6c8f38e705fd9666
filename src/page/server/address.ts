import { signal } from '@preact/signals';

/** The page's own folder: a proxy may serve it under a prefix. */
const base = new URL('.', location.href);

/** The address of a path of the server, below the page's folder. */
export const urlOf = (path: string): string => new URL(path.replace(/^\//, ''), base).href;

/** The folder's path, which keeps the conversations of two servers behind one proxy apart. */
export const basePath = base.pathname;

const tokenOfFragment = (): string | undefined =>
  new URLSearchParams(location.hash.slice(1)).get('token')?.trim() || undefined;

/** The bearer token: browsers never send the fragment of an address. */
export const token = signal(tokenOfFragment());

addEventListener('hashchange', () => {
  token.value = tokenOfFragment();
});

/** Uses another token, also after a reload. */
export function setToken(value: string): void {
  const fragment = value.trim() === '' ? '' : `#${new URLSearchParams({ token: value.trim() })}`;
  history.replaceState(null, '', `${location.pathname}${location.search}${fragment}`);
  token.value = tokenOfFragment();
}
