const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|\[?::1\]?):\d+$/;

/** Whether an address, `HOST:PORT` or `unix:PATH`, is reached from this machine alone. */
export function isLocal(address: string): boolean {
  return address.startsWith('unix:') || LOOPBACK.test(address);
}
