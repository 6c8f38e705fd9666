export { attentionTileSplit as attentionTileSplitRotated } from './attention_tile_split.js';
