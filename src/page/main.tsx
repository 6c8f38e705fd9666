import { render } from 'preact';
import { start } from './chat/chat-store.js';
import { watchServer } from './server/server-store.js';
import { App } from './views/app.js';

void start();
watchServer();
const root = document.getElementById('app') as HTMLElement;
// The document has a line that is painted before this script is there.
root.replaceChildren();
render(<App />, root);
