import { ArrowUp, Square, Zap } from 'lucide';
import { useEffect, useRef, useState } from 'preact/hooks';
import { current, isRunning, path, send, stop } from '../chat/chat-store.js';
import { canKillExecutor, killExecutor } from '../server/server-store.js';
import { Icon } from './icon.js';
import { MessageView } from './message-view.js';
import { wrapOf } from './wrap.js';

/** The conversation and the field for the next message. */
export function Chat() {
  return (
    <div class="chat">
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard */}
      <section class="scroller" tabIndex={0} aria-label="Messages">
        <div class="messages">
          {path.value.length === 0 && <Welcome />}
          {path.value.map((message) => (
            <MessageView key={message.id} message={message} />
          ))}
        </div>
      </section>
      <Composer key={current.value.id} />
    </div>
  );
}

/** `keyCode` of keys that an input method has taken. */
const COMPOSING = 229;

function Composer() {
  const [text, setText] = useState('');
  const field = useRef<HTMLTextAreaElement>(null);
  useEffect(() => field.current?.focus(), []);
  const submit = () => {
    if (isRunning.value || text.trim() === '') return;
    setText('');
    field.current?.focus();
    void send(text);
  };
  return (
    <form
      class="composer"
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
    >
      <textarea
        id="prompt"
        ref={field}
        rows={3}
        dir="auto"
        aria-label="Message"
        placeholder="Message (Enter sends, Shift+Enter starts a new line)"
        value={text}
        class={wrapOf(text.length)}
        onBeforeInput={({ currentTarget, data }: InputEvent & { currentTarget: HTMLTextAreaElement }) => {
          // Before the text is laid out.
          currentTarget.className = wrapOf(currentTarget.value.length + (data?.length ?? 0));
        }}
        onInput={({ currentTarget }) => setText(currentTarget.value)}
        onKeyDown={(event) => {
          // Keys that belong to an input method; Safari reports the one that ends a composition as key 229 after it.
          if (event.isComposing || event.keyCode === COMPOSING) return;
          if (event.key === 'Escape') stop();
          if (event.key !== 'Enter' || event.shiftKey) return;
          event.preventDefault();
          submit();
        }}
      />
      <div class="actions">
        {canKillExecutor.value && <KillButton />}
        {isRunning.value ? (
          <button
            type="button"
            id="stop-answer"
            onClick={() => {
              stop();
              // The button goes, and the focus with it.
              field.current?.focus();
            }}
          >
            <Icon node={Square} /> Stop
          </button>
        ) : (
          <button type="submit" id="send" class="primary" disabled={text.trim() === ''}>
            <Icon node={ArrowUp} /> Send
          </button>
        )}
      </div>
    </form>
  );
}

/** What a new conversation shows. */
function Welcome() {
  return (
    <div class="empty">
      <p>Ask something. Conversations stay in this browser.</p>
      {canKillExecutor.value && (
        <p>
          To see a recovery: send a message, and press “Kill the executor” while the answer is written. The text
          continues, with a mark where it was interrupted.
        </p>
      )}
    </div>
  );
}

/** Kills the process that computes: only `rocmforge demo --page` has this button. */
function KillButton() {
  const [notice, setNotice] = useState('');
  return (
    <>
      {notice !== '' && (
        <span role="alert" class="hint">
          {notice}
        </span>
      )}
      <button
        type="button"
        id="kill"
        class="danger"
        title="kill -9 the process that owns the device"
        onClick={() =>
          void killExecutor().then(
            () => setNotice(isRunning.value ? '' : 'Killed. No answer was being written: send a message first.'),
            (error: Error) => setNotice(error.message),
          )
        }
      >
        <Icon node={Zap} /> Kill the executor
      </button>
    </>
  );
}
