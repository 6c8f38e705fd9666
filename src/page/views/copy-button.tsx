import { Check, Copy, X } from 'lucide';
import { useEffect, useState } from 'preact/hooks';
import { Icon } from './icon.js';

const SHOWN_MS = 1500;

/** Copies a text. */
export function CopyButton({ text, label }: { readonly text: () => string; readonly label: string }) {
  const [outcome, setOutcome] = useState<'copied' | 'failed'>();
  useEffect(() => {
    if (outcome === undefined) return undefined;
    const timer = setTimeout(() => setOutcome(undefined), SHOWN_MS);
    return () => clearTimeout(timer);
  }, [outcome]);
  return (
    <button
      type="button"
      class="icon small"
      aria-label={outcome === undefined ? label : outcome === 'copied' ? 'Copied' : 'Copying failed'}
      title={label}
      onClick={() => void copy(text()).then((isCopied) => setOutcome(isCopied ? 'copied' : 'failed'))}
    >
      <Icon node={outcome === undefined ? Copy : outcome === 'copied' ? Check : X} />
    </button>
  );
}

/** @returns whether the text was copied */
async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Pages without TLS have no clipboard of their own.
    const { activeElement } = document;
    const area = document.createElement('textarea');
    area.value = text;
    area.className = 'visually-hidden';
    document.body.append(area);
    area.select();
    const isCopied = document.execCommand('copy');
    area.remove();
    if (activeElement instanceof HTMLElement) activeElement.focus();
    return isCopied;
  }
}
