// Vectors to two dimensions, off the page's own thread: principal components, then exact t-SNE
// (van der Maaten and Hinton 2008). The same vectors give the same map: the dice are seeded.

const KEPT = 30; // principal components that t-SNE reads
const SUBSPACE = 10; // multiplications by the covariance
const ROUNDS = 500,
  EARLY = 100; // of t-SNE; those with exaggerated neighbourhoods

function dice(seed) {
  // mulberry32
  let state = seed;
  const even = () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
  return () => Math.sqrt(-2 * Math.log(even() || 1e-12)) * Math.cos(2 * Math.PI * even());
}

// ---------------------------------------------------------------- principal components

// The leading components of n vectors (rows of `flat`, centred in place): a subspace that is
// multiplied by the covariance a few times, and its own principal axes (Rayleigh-Ritz).
// {scores: k columns of n, shares: of the whole spread}.
function components(flat, n, width, wanted) {
  let spread = 0;
  for (let j = 0; j < width; j += 1) {
    let mean = 0;
    for (let i = 0; i < n; i += 1) mean += flat[i * width + j];
    mean /= n;
    for (let i = 0; i < n; i += 1) {
      flat[i * width + j] -= mean;
      spread += flat[i * width + j] ** 2;
    }
  }
  const k = Math.min(wanted, width, n),
    draw = dice(7);
  let basis = Array.from({ length: k }, () => Float64Array.from({ length: width }, draw)),
    scores;
  orthonormal(basis);
  for (let round = 0; ; round += 1) {
    const next = basis.map(() => new Float64Array(width));
    scores = basis.map(() => new Float64Array(n));
    for (let i = 0; i < n; i += 1) {
      const row = flat.subarray(i * width, (i + 1) * width);
      for (let c = 0; c < k; c += 1) {
        const direction = basis[c],
          into = next[c];
        let sum = 0;
        for (let j = 0; j < width; j += 1) sum += row[j] * direction[j];
        scores[c][i] = sum;
        if (round < SUBSPACE) for (let j = 0; j < width; j += 1) into[j] += sum * row[j];
      }
    }
    if (round === SUBSPACE) break;
    basis = next;
    orthonormal(basis);
  }
  const inner = scores.map((a) => Float64Array.from(scores, (b) => a.reduce((sum, value, i) => sum + value * b[i], 0)));
  const { values, axes } = eigen(inner);
  const turned = axes.map((axis) => {
    const column = new Float64Array(n);
    axis.forEach((weight, c) => {
      for (let i = 0; i < n; i += 1) column[i] += weight * scores[c][i];
    });
    return column;
  });
  return { scores: turned, shares: values.map((one) => (spread ? one / spread : 0)) };
}

// Values and axes of a small symmetric matrix, largest first (Jacobi).
function eigen(matrix) {
  const k = matrix.length,
    turn = Array.from({ length: k }, (_, i) => Float64Array.from({ length: k }, (__, j) => Number(i === j)));
  for (let sweep = 0; sweep < 30; sweep += 1) {
    for (let p = 0; p < k; p += 1) {
      for (let q = p + 1; q < k; q += 1) {
        if (Math.abs(matrix[p][q]) < 1e-300) continue;
        const theta = (matrix[q][q] - matrix[p][p]) / (2 * matrix[p][q]);
        const tangent = (theta < 0 ? -1 : 1) / (Math.abs(theta) + Math.sqrt(theta * theta + 1));
        const cos = 1 / Math.sqrt(tangent * tangent + 1),
          sin = tangent * cos;
        for (let i = 0; i < k; i += 1) {
          const a = matrix[i][p],
            b = matrix[i][q];
          matrix[i][p] = cos * a - sin * b;
          matrix[i][q] = sin * a + cos * b;
        }
        for (let i = 0; i < k; i += 1) {
          const a = matrix[p][i],
            b = matrix[q][i];
          matrix[p][i] = cos * a - sin * b;
          matrix[q][i] = sin * a + cos * b;
        }
        for (let i = 0; i < k; i += 1) {
          const a = turn[i][p],
            b = turn[i][q];
          turn[i][p] = cos * a - sin * b;
          turn[i][q] = sin * a + cos * b;
        }
      }
    }
  }
  const order = Array.from({ length: k }, (_, i) => i).sort((a, b) => matrix[b][b] - matrix[a][a]);
  return {
    values: order.map((c) => matrix[c][c]),
    axes: order.map((c) => Float64Array.from({ length: k }, (_, i) => turn[i][c])),
  };
}

function orthonormal(rows) {
  rows.forEach((row, c) => {
    for (let again = 0; again < 2; again += 1) {
      for (let b = 0; b < c; b += 1) {
        let dot = 0;
        for (let j = 0; j < row.length; j += 1) dot += row[j] * rows[b][j];
        for (let j = 0; j < row.length; j += 1) row[j] -= dot * rows[b][j];
      }
    }
    const length = Math.sqrt(row.reduce((sum, value) => sum + value * value, 0)) || 1;
    for (let j = 0; j < row.length; j += 1) row[j] /= length;
  });
}

// ---------------------------------------------------------------- t-SNE

// Joint probabilities of neighbours (n x n), each point with the same perplexity.
function affinities(columns, n, perplexity) {
  const goal = Math.log(perplexity),
    joint = new Float32Array(n * n),
    far = new Float64Array(n),
    row = new Float64Array(n);
  for (let i = 0; i < n; i += 1) {
    far.fill(0);
    for (const column of columns) for (let j = 0; j < n; j += 1) far[j] += (column[i] - column[j]) ** 2;
    let least = Infinity;
    for (let j = 0; j < n; j += 1) if (j !== i) least = Math.min(least, far[j]);
    let beta = 1,
      low = 0,
      high = Infinity;
    for (let tries = 0; tries < 60; tries += 1) {
      let sum = 0,
        weighted = 0;
      for (let j = 0; j < n; j += 1) {
        row[j] = j === i ? 0 : Math.exp(-(far[j] - least) * beta);
        sum += row[j];
        weighted += row[j] * (far[j] - least);
      }
      const entropy = Math.log(sum) + (beta * weighted) / sum;
      if (Math.abs(entropy - goal) < 1e-5) break;
      if (entropy > goal) {
        low = beta;
        beta = high === Infinity ? beta * 2 : (beta + high) / 2;
      } else {
        high = beta;
        beta = (beta + low) / 2;
      }
    }
    const sum = row.reduce((a, b) => a + b, 0) || 1;
    for (let j = 0; j < n; j += 1) {
      joint[i * n + j] += row[j] / sum / (2 * n);
      joint[j * n + i] += row[j] / sum / (2 * n);
    }
  }
  return joint;
}

function* neighbours(columns, n) {
  const joint = affinities(columns, n, Math.min(30, Math.max(2, (n - 1) / 3)));
  const place = new Float64Array(2 * n),
    speed = new Float64Array(2 * n),
    gain = new Float64Array(2 * n).fill(1),
    slope = new Float64Array(2 * n);
  const size = Math.sqrt(columns[0].reduce((sum, value) => sum + value * value, 0) / n) || 1;
  for (let i = 0; i < n; i += 1) {
    place[2 * i] = (1e-2 * columns[0][i]) / size;
    place[2 * i + 1] = (1e-2 * (columns[1]?.[i] ?? 0)) / size;
  }
  const near = new Float32Array(n * n);
  const rate = Math.max(n / 12 / 4, 50);
  for (let round = 0; round < ROUNDS; round += 1) {
    const more = round < EARLY ? 12 : 1,
      push = round < EARLY ? 0.5 : 0.8;
    let total = 0;
    for (let i = 0; i < n; i += 1) {
      const x = place[2 * i],
        y = place[2 * i + 1];
      for (let j = 0; j < i; j += 1) {
        const q = 1 / (1 + (x - place[2 * j]) ** 2 + (y - place[2 * j + 1]) ** 2);
        near[i * n + j] = q;
        total += 2 * q;
      }
    }
    slope.fill(0);
    for (let i = 0; i < n; i += 1) {
      for (let j = 0; j < i; j += 1) {
        const q = near[i * n + j],
          pull = 4 * (more * joint[i * n + j] - q / total) * q;
        const dx = pull * (place[2 * i] - place[2 * j]),
          dy = pull * (place[2 * i + 1] - place[2 * j + 1]);
        slope[2 * i] += dx;
        slope[2 * i + 1] += dy;
        slope[2 * j] -= dx;
        slope[2 * j + 1] -= dy;
      }
    }
    for (let a = 0; a < 2 * n; a += 1) {
      gain[a] = Math.max(0.01, Math.sign(slope[a]) === Math.sign(speed[a]) ? gain[a] * 0.8 : gain[a] + 0.2);
      speed[a] = push * speed[a] - rate * gain[a] * slope[a];
      place[a] += speed[a];
    }
    if (round % 20 === 19) yield { place: Float32Array.from(place), share: (round + 1) / ROUNDS };
  }
}

// ---------------------------------------------------------------- messages

// In: {vectors: Float32Array, count, width}. Out: {kind: "pca", place, shares}, then {kind: "tsne",
// place, share, done} again and again.
self.addEventListener("message", ({ data: { vectors, count, width } }) => {
  const found = components(Float64Array.from(vectors), count, width, KEPT);
  const place = new Float32Array(2 * count);
  for (let i = 0; i < count; i += 1) {
    place[2 * i] = found.scores[0][i];
    place[2 * i + 1] = found.scores[1]?.[i] ?? 0;
  }
  self.postMessage({ kind: "pca", place, shares: found.shares.slice(0, 2) });
  for (const one of neighbours(found.scores, count))
    self.postMessage({ kind: "tsne", place: one.place, share: one.share, done: one.share >= 1 });
});
