import { createContext, type VNode } from 'preact';
import { useContext } from 'preact/hooks';
import type { RecoveryMark } from '../chat/conversation.js';
import { partsOf } from './marks.js';

/** Marks of the text around. */
export const MarksContext = createContext<readonly RecoveryMark[]>([]);

/** A text with its marks, and with control characters made visible. */
export function MarkedText({ text, firstMark }: { readonly text: string; readonly firstMark: number }) {
  let mark = firstMark;
  const parts = partsOf(text).map((part): VNode | string => {
    if (part.kind === 'text') return part.text;
    if (part.kind === 'control') return <span class="control">{part.text}</span>;
    mark += 1;
    return <RecoveryNote index={mark - 1} />;
  });
  return <>{parts}</>;
}

/** The place at which an executor was lost. */
export function RecoveryNote({ index }: { readonly index: number }) {
  const mark = useContext(MarksContext)[index];
  if (mark === undefined) return null;
  const isOver = mark.ms !== undefined;
  return (
    <span class={isOver ? 'recovery' : 'recovery is-open'} role="note">
      {isOver ? `executor lost, continued after ${durationText(mark.ms ?? 0)}` : 'executor lost, recovering…'}
    </span>
  );
}

/** A duration as people read it. */
export const durationText = (ms: number): string =>
  ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
