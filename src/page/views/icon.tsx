import type { IconNode } from 'lucide';
import { h } from 'preact';

/** An icon of Lucide. It has no name of its own: its button has a label. */
export function Icon({ node }: { readonly node: IconNode }) {
  return (
    <svg
      aria-hidden="true"
      viewBox="0 0 24 24"
      fill="none"
      stroke="currentColor"
      stroke-width="2"
      stroke-linecap="round"
      stroke-linejoin="round"
    >
      {node.map(([tag, attributes]) => h(tag, attributes))}
    </svg>
  );
}
