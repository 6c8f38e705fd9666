/** Values of this tab that outlive a reload. A browser that keeps nothing for the page throws; then they only last for the page. */
const held = new Map<string, string>();

type Name = 'conversation' | 'answer';

export function recall(name: Name): string | undefined {
  try {
    return sessionStorage.getItem(name) ?? undefined;
  } catch {
    return held.get(name);
  }
}

export function remember(name: Name, value: string): void {
  held.set(name, value);
  try {
    sessionStorage.setItem(name, value);
  } catch {
    // It is held for the page.
  }
}

export function forget(name: Name): void {
  held.delete(name);
  try {
    sessionStorage.removeItem(name);
  } catch {
    // It is held for the page.
  }
}
