import type { Token, Tokens } from 'marked';
import type { ComponentChildren, VNode } from 'preact';
import { memo } from 'preact/compat';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { RecoveryMark } from '../chat/conversation.js';
import { type Block, Blocks, type BlockToken } from './blocks.js';
import { CodeBlock } from './code-block.js';
import { whenIdle } from './idle-queue.js';
import { MarkedText, MarksContext, RecoveryNote } from './marked-text.js';
import { MARK, withMarks } from './marks.js';

/** Addresses that a link may have; others are shown as text. */
const LINK = /^(https?:|mailto:)/i;

interface MarkdownProps {
  readonly text: string;
  /** Marks in the text, in order. */
  readonly marks: readonly RecoveryMark[];
}

/** A text as Markdown. No part of it is ever parsed as HTML. */
export function Markdown({ text, marks }: MarkdownProps) {
  const blocks = useRef<Blocks | undefined>(undefined);
  blocks.current ??= new Blocks();
  const offsets = marks.map(({ at }) => at).join();
  const source = useMemo(
    () =>
      withMarks(
        text,
        marks.map(({ at }) => at),
      ),
    [text, offsets],
  );
  const groups = groupsOf(blocks.current.read(source));
  const hidden = useHiddenGroups(groups.length);
  return (
    <MarksContext.Provider value={marks}>
      <div class="markdown">{groups.map((group, i) => (i < hidden ? null : <Group key={i} blocks={group} />))}</div>
    </MarksContext.Provider>
  );
}

/** Blocks that the browser lays out and paints together, or not at all while they are not visible. */
const GROUP_BLOCKS = 16;

/** Groups that are rendered at once; a long answer that is opened gets the earlier ones while the page is idle. */
const GROUPS_AT_ONCE = 4;

/** Number of the first groups that are not rendered yet. The chat shows its end, and stays there while text is added above. */
function useHiddenGroups(count: number): number {
  const [hidden, setHidden] = useState(Math.max(0, count - GROUPS_AT_ONCE));
  useEffect(
    () => (hidden === 0 ? undefined : whenIdle(() => setHidden(Math.max(0, hidden - GROUPS_AT_ONCE)))),
    [hidden],
  );
  return hidden;
}

function groupsOf(blocks: readonly Block[]): readonly (readonly Block[])[] {
  const groups: (readonly Block[])[] = [];
  for (let i = 0; i < blocks.length; i += GROUP_BLOCKS) groups.push(blocks.slice(i, i + GROUP_BLOCKS));
  return groups;
}

const Group = memo(
  function Group({ blocks }: { readonly blocks: readonly Block[] }) {
    return (
      <div class="group">
        {blocks.map((block) => (
          <BlockView key={block.key} block={block} />
        ))}
      </div>
    );
  },
  (before, after) =>
    before.blocks.length === after.blocks.length && before.blocks.every((block, i) => block === after.blocks[i]),
);

/** Counts the marks of a block that were rendered; those within an address or a language are shown behind the block. */
class MarkCounter {
  constructor(private next: number) {}

  take(count: number): number {
    const first = this.next;
    this.next += count;
    return first;
  }

  get taken(): number {
    return this.next;
  }
}

const BlockView = memo(
  function BlockView({ block }: { readonly block: Block }) {
    const counter = new MarkCounter(block.firstMark);
    const content = blockContent(block.token, counter);
    const missed: VNode[] = [];
    for (let i = counter.taken; i < block.firstMark + block.marks; i += 1)
      missed.push(<RecoveryNote key={i} index={i} />);
    return (
      <div class="block">
        {content}
        {missed}
      </div>
    );
  },
  (before, after) =>
    before.block === after.block ||
    (before.block.token.raw === after.block.token.raw &&
      before.block.token.type === after.block.token.type &&
      before.block.firstMark === after.block.firstMark),
);

/** Text with its marks and control characters. */
function textOf(text: string, counter: MarkCounter): VNode {
  const marks = text.split(MARK).length - 1;
  return <MarkedText text={text} firstMark={marks === 0 ? 0 : counter.take(marks)} />;
}

function blockContent(token: BlockToken, counter: MarkCounter): ComponentChildren {
  switch (token.type) {
    case 'plain':
      return <div class="plain">{textOf(token.raw, counter)}</div>;
    case 'code': {
      const { text, lang, isOpen } = token as Extract<BlockToken, { isOpen: boolean }>;
      const marks = text.split(MARK).length - 1;
      return <CodeBlock text={text} lang={lang.replaceAll(MARK, '')} isOpen={isOpen} firstMark={counter.take(marks)} />;
    }
    case 'space':
    case 'def':
      return null;
    case 'hr':
      return <hr />;
    case 'heading':
      return heading(token as Tokens.Heading, counter);
    case 'blockquote':
      return <blockquote>{blocksOf((token as Tokens.Blockquote).tokens, counter)}</blockquote>;
    case 'list':
      return list(token as Tokens.List, counter);
    case 'table':
      return table(token as Tokens.Table, counter);
    case 'paragraph':
      return <p>{inlines((token as Tokens.Paragraph).tokens, counter)}</p>;
    default:
      return <p>{inline(token as Token, counter)}</p>;
  }
}

const blocksOf = (tokens: readonly Token[], counter: MarkCounter): ComponentChildren =>
  tokens.map((token) => blockContent(nested(token), counter));

/** A code block within a list or a quote has its end, or is not recognized as code. */
const nested = (token: Token): BlockToken =>
  token.type === 'code'
    ? { type: 'code', raw: token.raw, text: token.text, lang: token.lang?.split(/\s/)[0] ?? '', isOpen: true }
    : (token as BlockToken);

/** The page has the first levels. */
function heading({ depth, tokens }: Tokens.Heading, counter: MarkCounter): VNode {
  const Tag = `h${Math.min(depth + 2, 6)}` as 'h3';
  return <Tag class={`heading heading-${depth}`}>{inlines(tokens, counter)}</Tag>;
}

function list({ ordered, start, items }: Tokens.List, counter: MarkCounter): VNode {
  const entries = items.map((item) => (
    <li>
      {item.task ? (item.checked ? '☑ ' : '☐ ') : ''}
      {item.tokens.map((token) =>
        token.type === 'text' ? inline(token, counter) : blockContent(nested(token), counter),
      )}
    </li>
  ));
  if (!ordered) return <ul>{entries}</ul>;
  return <ol start={typeof start === 'number' ? start : 1}>{entries}</ol>;
}

function table({ header, rows, align }: Tokens.Table, counter: MarkCounter): VNode {
  const className = (i: number) => (align[i] ? `align-${align[i]}` : undefined);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
    <section class="scroll" tabIndex={0} aria-label="Table">
      <table>
        <thead>
          <tr>
            {header.map((cell, i) => (
              <th scope="col" class={className(i)}>
                {inlines(cell.tokens, counter)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr>
              {row.map((cell, i) => (
                <td class={className(i)}>{inlines(cell.tokens, counter)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

const inlines = (tokens: readonly Token[] | undefined, counter: MarkCounter): ComponentChildren =>
  (tokens ?? []).map((token) => inline(token, counter));

function inline(token: Token, counter: MarkCounter): ComponentChildren {
  switch (token.type) {
    case 'strong':
      return <strong>{inlines(token.tokens, counter)}</strong>;
    case 'em':
      return <em>{inlines(token.tokens, counter)}</em>;
    case 'del':
      return <del>{inlines(token.tokens, counter)}</del>;
    case 'br':
      return <br />;
    case 'codespan':
      return <code>{textOf(token.text, counter)}</code>;
    case 'link':
      return link(token as Tokens.Link, inlines(token.tokens, counter));
    case 'image':
      // An image would be loaded from elsewhere.
      return link(token as Tokens.Image, textOf(token.text || 'image', counter));
    case 'text':
      return token.tokens?.length ? inlines(token.tokens, counter) : textOf(decoded(token.text), counter);
    case 'escape':
      return textOf(decoded(token.text), counter);
    default:
      // HTML stays text.
      return textOf(token.raw, counter);
  }
}

function link({ href }: { readonly href: string }, content: ComponentChildren): VNode {
  const address = href.replaceAll(MARK, '');
  if (!LINK.test(address)) return <span title={address}>{content}</span>;
  return (
    <a href={address} title={address} target="_blank" rel="noopener noreferrer nofollow">
      {content}
    </a>
  );
}

const ENTITIES: Readonly<Record<string, string>> = {
  amp: '&',
  lt: '<',
  gt: '>',
  quot: '"',
  '#39': "'",
  nbsp: '\u00A0',
};

/** Character references that Markdown's writers use. */
const decoded = (text: string): string =>
  text.replace(/&(amp|lt|gt|quot|#39|nbsp);/g, (_, name: string) => ENTITIES[name] ?? '');
