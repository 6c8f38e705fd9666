import { render } from 'preact';
import { start } from './chat/chat-store.js';
import { watchServer } from './server/server-store.js';
import { App } from './views/app.js';

void start();
watchServer();
render(<App />, document.getElementById('app') as HTMLElement);
