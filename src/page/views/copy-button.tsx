import { Check, Copy } from 'lucide';
import { useEffect, useState } from 'preact/hooks';
import { Icon } from './icon.js';

const SHOWN_MS = 1500;

/** Copies a text. */
export function CopyButton({ text, label }: { readonly text: () => string; readonly label: string }) {
  const [isCopied, setCopied] = useState(false);
  useEffect(() => {
    if (!isCopied) return undefined;
    const timer = setTimeout(() => setCopied(false), SHOWN_MS);
    return () => clearTimeout(timer);
  }, [isCopied]);
  return (
    <button
      type="button"
      class="icon small"
      aria-label={isCopied ? 'Copied' : label}
      title={label}
      onClick={() => void copy(text()).then(setCopied)}
    >
      <Icon node={isCopied ? Check : Copy} />
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
    const area = document.createElement('textarea');
    area.value = text;
    document.body.append(area);
    area.select();
    const isCopied = document.execCommand('copy');
    area.remove();
    return isCopied;
  }
}
