export { attentionTileSplit as attentionTileSplitTurned } from './attention_tile_split.js';
