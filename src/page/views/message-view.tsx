import { ChevronLeft, ChevronRight, Pencil, RefreshCw, StepForward } from 'lucide';
import { memo } from 'preact/compat';
import { useErrorBoundary, useState } from 'preact/hooks';
import { continueAnswer, edit, isRunning, messages, regenerate, switchBranch } from '../chat/chat-store.js';
import { type Message, siblingsOf } from '../chat/conversation.js';
import { piecesOf } from '../markdown/blocks.js';
import { Markdown } from '../markdown/markdown.js';
import { CopyButton } from './copy-button.js';
import { Icon } from './icon.js';
import { StatsLine } from './stats-line.js';
import { TokensView } from './tokens-view.js';
import { ToolCalls } from './tool-calls.js';
import { wrapOf } from './wrap.js';

const ROLES = { user: 'You', assistant: 'Answer', tool: 'Tool result' } as const;

/** A message; one that cannot be shown does not take the page with it. */
export const MessageView = memo(function MessageView({ message }: { readonly message: Message }) {
  const [error] = useErrorBoundary((problem) => console.error(problem));
  if (error === undefined) return <MessageArticle message={message} />;
  return (
    <article class={`message ${message.role}`}>
      <p class="error" role="alert">
        This message cannot be shown: {String(error)}
      </p>
    </article>
  );
});

/** A message with what can be done with it. */
function MessageArticle({ message }: { readonly message: Message }) {
  const [isEdited, setEdited] = useState(false);
  const [showsTokens, setShowsTokens] = useState(false);
  const { role, content, state, error, choices } = message;
  const isStreaming = state === 'streaming';
  return (
    <article class={`message ${role}`} aria-busy={isStreaming}>
      <h2 class="role">{ROLES[role]}</h2>
      <Reasoning message={message} />
      {isEdited ? (
        <Editor
          text={content}
          onDone={(text) => {
            setEdited(false);
            if (text !== undefined && text !== content) void edit(message, text);
          }}
        />
      ) : (
        <Content message={message} showsTokens={showsTokens} />
      )}
      {role === 'assistant' && <ToolCalls message={message} />}
      {error !== undefined && (
        <p class="error" role="alert">
          {error}
        </p>
      )}
      {state === 'stopped' && <p class="note">Stopped.</p>}
      {message.finish === 'length' && <p class="note">Cut at the limit of tokens or of the context.</p>}
      <StatsLine message={message} />
      {!isStreaming && !isEdited && (
        <div class="actions">
          <CopyButton text={() => content} label="Copy message" />
          <Actions message={message} onEdit={() => setEdited(true)} />
          {choices !== undefined && (
            <button
              type="button"
              class="text tokens-button"
              aria-pressed={showsTokens}
              onClick={() => setShowsTokens(!showsTokens)}
            >
              Tokens
            </button>
          )}
          <Branches message={message} />
        </div>
      )}
    </article>
  );
}

function Content({ message, showsTokens }: { readonly message: Message; readonly showsTokens: boolean }) {
  const { role, content, marks, choices } = message;
  if (showsTokens && choices !== undefined) return <TokensView choices={choices} />;
  if (role !== 'assistant') {
    return (
      <div class="plain content" dir="auto">
        <PlainText text={content} />
      </div>
    );
  }
  return (
    <div class="content" dir="auto">
      <Markdown text={content} marks={marks.filter(({ part }) => part === 'content')} />
    </div>
  );
}

/** A text as it is, in pieces if it is long: a browser lays out one long line slowly. */
const PlainText = memo(function PlainText({ text }: { readonly text: string }) {
  const pieces = piecesOf(text);
  if (pieces.length === 1) return <>{text}</>;
  return (
    <>
      {pieces.map((piece, i) => (
        <span key={i} class="piece">
          {piece}
        </span>
      ))}
    </>
  );
});

function Reasoning({ message: { reasoning, marks, state, content } }: { readonly message: Message }) {
  if (reasoning === '') return null;
  return (
    <details class="reasoning">
      <summary>{state === 'streaming' && content === '' ? 'Reasoning…' : 'Reasoning'}</summary>
      <div dir="auto">
        <Markdown text={reasoning} marks={marks.filter(({ part }) => part === 'reasoning')} />
      </div>
    </details>
  );
}

function Actions({ message, onEdit }: { readonly message: Message; readonly onEdit: () => void }) {
  const { role, state, finish, toolCalls } = message;
  const isCut = state !== 'complete' || finish === 'length';
  return (
    <>
      <button
        type="button"
        class="icon small"
        aria-label="Edit"
        title="Edit"
        disabled={isRunning.value}
        onClick={onEdit}
      >
        <Icon node={Pencil} />
      </button>
      {role === 'assistant' && (
        <button
          type="button"
          class="icon small"
          aria-label="Regenerate"
          title="Regenerate"
          disabled={isRunning.value}
          onClick={() => void regenerate(message)}
        >
          <Icon node={RefreshCw} />
        </button>
      )}
      {role === 'assistant' && isCut && toolCalls.length === 0 && (
        <button
          type="button"
          class="icon small"
          aria-label="Continue"
          title="Continue"
          disabled={isRunning.value}
          onClick={() => void continueAnswer(message)}
        >
          <Icon node={StepForward} />
        </button>
      )}
    </>
  );
}

/** The other versions of a message. */
function Branches({ message }: { readonly message: Message }) {
  const all = siblingsOf(messages.value, message);
  if (all.length < 2) return null;
  const at = all.findIndex(({ id }) => id === message.id);
  return (
    <span class="branches">
      <button
        type="button"
        class="icon small"
        aria-label="Previous version"
        disabled={at === 0}
        onClick={() => switchBranch(message, -1)}
      >
        <Icon node={ChevronLeft} />
      </button>
      <span>
        {at + 1} / {all.length}
      </span>
      <button
        type="button"
        class="icon small"
        aria-label="Next version"
        disabled={at === all.length - 1}
        onClick={() => switchBranch(message, 1)}
      >
        <Icon node={ChevronRight} />
      </button>
    </span>
  );
}

function Editor({ text, onDone }: { readonly text: string; readonly onDone: (text?: string) => void }) {
  const [edited, setEdited] = useState(text);
  return (
    <form
      class="editor"
      onSubmit={(event) => {
        event.preventDefault();
        onDone(edited);
      }}
    >
      <textarea
        rows={4}
        dir="auto"
        aria-label="Edit message"
        class={wrapOf(edited.length)}
        value={edited}
        ref={(field) => field?.focus()}
        onInput={({ currentTarget }) => setEdited(currentTarget.value)}
        onKeyDown={({ key }) => {
          if (key === 'Escape') onDone();
        }}
      />
      <div class="actions">
        <button type="button" onClick={() => onDone()}>
          Cancel
        </button>
        <button type="submit" class="primary">
          Save
        </button>
      </div>
    </form>
  );
}
