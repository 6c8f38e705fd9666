export { attentionTile as attentionTileFoldTurned } from './attention_tile.js';
