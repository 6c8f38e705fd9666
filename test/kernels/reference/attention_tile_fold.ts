export { attentionTile as attentionTileFold } from './attention_tile.js';
