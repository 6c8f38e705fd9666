import { describe, expect, it } from 'vitest';
import { DraftLength } from '../../../src/gateway/request/draft-length.js';
import { GREEDY, Sequence } from '../../../src/gateway/request/sequence.js';

describe('the number of draft tokens', () => {
  it('doubles while all are right, and follows how many were', () => {
    const length = new DraftLength(3);
    expect(length.at(10)).toBe(3);
    length.learn(3, 3, 14);
    expect(length.at(14)).toBe(6);
    length.learn(6, 6, 21);
    expect(length.at(21)).toBe(7);
    length.learn(2, 7, 24);
    expect(length.at(24)).toBe(3);
    length.learn(0, 3, 25);
    expect(length.at(25)).toBe(1);
  });

  it('is none for a while after three wrong tries, twice as long each time, until one is right', () => {
    const length = new DraftLength(3);
    const miss = (known: number) => {
      for (let i = 0; i < 3; i++) length.learn(0, 1, known + i);
    };
    miss(10);
    expect([12, 27, 28].map((known) => length.at(known))).toEqual([0, 0, 1]);
    miss(28);
    expect([61, 62].map((known) => length.at(known))).toEqual([0, 1]);
    length.learn(1, 1, 62);
    miss(70);
    expect([87, 88].map((known) => length.at(known))).toEqual([0, 2 - 1]);
  });

  it('is limited to what pays at the measured acceptance, and is none where nothing does, but for one try after a rest', () => {
    const asked: (readonly [right: number, tried: number])[] = [];
    let pays = 2;
    const length = new DraftLength(3, ({ right, tried }) => {
      asked.push([right, tried]);
      return pays;
    });
    expect(length.at(5)).toBe(2);
    length.learn(1, 3, 6);
    expect(length.at(6)).toBe(2);
    length.learn(2, 2, 9);
    expect(length.at(9)).toBe(2);
    // Of three draft tokens the third followed a wrong one.
    expect(asked).toEqual([
      [0, 0],
      [1, 2],
      [0.9 + 2, 1.8 + 2],
    ]);
    pays = 0;
    expect(length.at(100)).toBe(0);
    // Asked again of the same tokens it says the same.
    expect(length.at(100)).toBe(0);
    expect([115, 116].map((known) => length.at(known))).toEqual([0, 1]);
    length.learn(0, 1, 117);
    expect(length.at(117)).toBe(0);
    expect([148, 149].map((known) => length.at(known))).toEqual([0, 1]);
  });
});

describe('draft tokens of a prediction block', () => {
  const sequenceOf = (promptIds: number[]) =>
    new Sequence({
      ...{ promptIds: Uint32Array.from(promptIds), sampling: GREEDY, maxTokens: 100, priority: 0 },
      ...{ speculates: true, predicts: true },
    });

  it('are taken where the text repeats nothing, for the tokens that they follow alone', () => {
    const sequence = sequenceOf([1, 2, 3, 4, 5]);
    expect(sequence.predictedTokens).toBe(3);
    sequence.emitted.push(6);
    sequence.expect([7, 8, 9]);
    expect(sequence.draftTokens(7)).toEqual([{ tokenId: 7 }, { tokenId: 8 }, { tokenId: 9 }]);
    expect(sequence.draftTokens(2)).toEqual([{ tokenId: 7 }, { tokenId: 8 }]);
    expect([sequence.draftIds, sequence.draftMethod]).toEqual([[7, 8, 9], 'mtp']);
    sequence.emitted.push(20);
    expect(sequence.draftTokens(7)).toEqual([]);
  });

  it('give way to prompt lookup, and are counted apart from it', () => {
    const sequence = sequenceOf([1, 2, 3, 4, 1, 2]);
    sequence.emitted.push(3);
    sequence.expect([9, 9, 9]);
    expect([sequence.draftIds, sequence.draftMethod]).toEqual([[4, 1, 2], 'lookup']);
    sequence.learn(2, 3, 3, 'lookup');
    sequence.learn(1, 3, 2, 'mtp');
    const { drafted, accepted, predicted, acceptedPredicted } = sequence;
    expect([drafted, accepted, predicted, acceptedPredicted]).toEqual([6, 3, 2, 1]);
  });

  it('are forgotten with the executor', () => {
    const sequence = sequenceOf([1, 2, 3]);
    sequence.emitted.push(4);
    sequence.expect([5]);
    sequence.forgetDevice();
    expect(sequence.draftTokens(7)).toEqual([]);
  });

  it('end for good where none pays any more, once four slices had some', () => {
    const sequence = sequenceOf([1, 2, 3]);
    sequence.worth = (_, { right, tried }) => (tried === 0 || right / tried > 0.2 ? 7 : 0);
    for (let i = 0; i < 4; i++) {
      expect([sequence.predictedTokens, sequence.isPredicting]).toEqual([i === 0 ? 3 : 1, true]);
      sequence.learn(0, 1, 1, 'mtp');
    }
    expect([sequence.predictedTokens, sequence.isPredicting, sequence.draftMethod]).toEqual([0, false, 'lookup']);
    sequence.worth = () => 7;
    expect(sequence.predictedTokens).toBe(0);
  });

  it.each([
    ['in a step of its own, if the scheduler wants them', true, true, true],
    ['never, if it does not', true, false, false],
    ['never beside another step', false, true, false],
  ])('begin with the first slot %s', (_, isAlone, isAdmitted, expected) => {
    const sequence = sequenceOf([1, 2, 3]);
    sequence.beginPrediction(isAlone, () => isAdmitted);
    expect(sequence.isPredicting).toBe(expected);
    // A later slot does not begin them again, and keeps them where the step is alone.
    sequence.beginPrediction(true, () => !isAdmitted);
    expect(sequence.isPredicting).toBe(expected);
    sequence.beginPrediction(false, () => true);
    expect(sequence.isPredicting).toBe(false);
  });
});
