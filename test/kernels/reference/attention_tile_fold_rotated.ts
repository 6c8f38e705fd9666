export { attentionTile as attentionTileFoldRotated } from './attention_tile.js';
