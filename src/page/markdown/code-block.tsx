import type { RefObject } from 'preact';
import { memo } from 'preact/compat';
import { useEffect, useRef, useState } from 'preact/hooks';
import { CopyButton } from '../views/copy-button.js';
import { type HighlightedLine, type Highlighter, loadHighlighter } from './highlight.js';
import { whenIdle, whenVisible } from './idle-queue.js';
import { MarkedText } from './marked-text.js';
import { MARK, withoutMarks } from './marks.js';

interface CodeBlockProps {
  readonly text: string;
  readonly lang: string;
  /** Its end has not come. */
  readonly isOpen: boolean;
  readonly firstMark: number;
}

/** Lines of a piece: while code streams only the last piece changes. */
const PIECE_LINES = 40;
/** Characters that are highlighted: the work is done in one task. */
const MOST_HIGHLIGHTED = 12_000;

/** A code block, highlighted once its end has come, when it is visible and the page idle. */
export function CodeBlock({ text, lang, isOpen, firstMark }: CodeBlockProps) {
  const code = withoutMarks(text);
  const figure = useRef<HTMLElement>(null);
  const lines = useHighlighted(figure, code, lang, !isOpen && text === code);
  return (
    <figure class="code" ref={figure}>
      <figcaption>
        <span>{lang || 'text'}</span>
        <CopyButton text={() => code} label="Copy code" />
      </figcaption>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard */}
      <section class="scroll" tabIndex={0} aria-label={lang === '' ? 'Code' : `Code, ${lang}`}>
        <pre>
          {lines === undefined ? <Pieces text={text} firstMark={firstMark} /> : <code>{lines.map(lineOf)}</code>}
        </pre>
      </section>
    </figure>
  );
}

function Pieces({ text, firstMark }: { readonly text: string; readonly firstMark: number }) {
  const lines = text.split('\n');
  const pieces = [];
  let mark = firstMark;
  for (let i = 0; i < lines.length; i += PIECE_LINES) {
    const piece = lines.slice(i, i + PIECE_LINES).join('\n') + (i + PIECE_LINES < lines.length ? '\n' : '');
    pieces.push(<Piece key={i} text={piece} firstMark={mark} />);
    mark += piece.split(MARK).length - 1;
  }
  return <code>{pieces}</code>;
}

const Piece = memo(function Piece({ text, firstMark }: { readonly text: string; readonly firstMark: number }) {
  return (
    <span>
      <MarkedText text={text} firstMark={firstMark} />
    </span>
  );
});

function lineOf(line: HighlightedLine) {
  return (
    <span>
      {line.map(({ text, scope }) =>
        scope === '' ? (
          <MarkedText text={text} firstMark={0} />
        ) : (
          <span class={scope}>
            <MarkedText text={text} firstMark={0} />
          </span>
        ),
      )}
      {'\n'}
    </span>
  );
}

/** The lines of code with the classes of their parts; undefined: not highlighted, or not yet. */
function useHighlighted(
  figure: RefObject<HTMLElement | null>,
  code: string,
  lang: string,
  isWanted: boolean,
): readonly HighlightedLine[] | undefined {
  const [result, setResult] = useState<{ readonly code: string; readonly lines: readonly HighlightedLine[] }>();
  useEffect(() => {
    if (!isWanted || lang === '' || code.length > MOST_HIGHLIGHTED || code.trim() === '') return undefined;
    if (figure.current === null) return undefined;
    let cancel = (): void => undefined;
    const highlightOnceIdle = (highlight: Highlighter): void => {
      cancel = whenIdle(() => {
        const lines = highlight(code, lang);
        if (lines !== undefined) setResult({ code, lines });
      });
    };
    let isCurrent = true;
    const stopWaiting = whenVisible(figure.current, () => {
      void loadHighlighter().then(
        (highlight) => isCurrent && highlightOnceIdle(highlight),
        () => undefined,
      );
    });
    return () => {
      isCurrent = false;
      stopWaiting();
      cancel();
    };
  }, [code, lang, isWanted]);
  return result?.code === code && isWanted ? result.lines : undefined;
}
