// What every peer written for Node is asked to do; the verbs, the job and the answers are those of the Rust drivers.
//
// A peer is an object with: batch, settings(tuned), open(url, tuned), setup(), submit(id), bulk(ids), start(ran), stored().

export const pad = 'x'.repeat(80)

const STRETCH = 10_000
const sleep = ms => new Promise(resolve => setTimeout(resolve, ms))
const now = () => Number(process.hrtime.bigint()) / 1e6

let count = 0
const marks = []
const starts = new Map()

/** Called by each handler when it starts. */
function ran (id) {
  count++
  if (count === 1 || count % STRETCH === 0) marks.push(now())
  if (count < 20_000) starts.set(id, now())
}

async function inBatches (peer, jobs) {
  for (let next = 0; next < jobs; next += peer.batch) {
    const size = Math.min(peer.batch, jobs - next)
    await peer.bulk(Array.from({ length: size }, (_, i) => next + i))
  }
}

async function bulk (peer, jobs) {
  const begun = now()
  await inBatches(peer, jobs)
  return { jobs, per_second: jobs / (now() - begun) * 1e3 }
}

async function submit (peer, jobs, callers) {
  // The first call of some of them looks things up for all later ones.
  await peer.submit(jobs)
  let next = 0
  const begun = now()
  await Promise.all(Array.from({ length: callers }, async () => {
    while (next < jobs) await peer.submit(next++)
  }))
  return { jobs, per_second: jobs / (now() - begun) * 1e3 }
}

/** From the start of the worker to the last stored end; after `limit` seconds it is told how far it came. */
async function drain (peer, jobs, limit) {
  const begun = now()
  const over = () => now() - begun >= limit * 1e3
  await peer.start(ran)
  while (count < jobs && !over()) await sleep(2)
  while (count >= jobs && !over() && !await peer.stored()) await sleep(5)
  const ms = now() - begun
  const done = Math.min(count, jobs)
  const rate = from => STRETCH / (marks[from + 1] - marks[from]) * 1e3
  return {
    jobs: done,
    cut: ms >= limit * 1e3,
    per_second: done / ms * 1e3,
    first_10k_per_second: marks.length < 3 ? null : rate(0),
    last_10k_per_second: marks.length < 3 ? null : rate(marks.length - 2)
  }
}

async function waitFor (jobs, seconds) {
  const begun = now()
  while (count < jobs) {
    if (now() - begun > seconds * 1e3) throw new Error(`${count} of ${jobs} jobs had started after ${seconds} s`)
    await sleep(2)
  }
}

/** One job each 50 ms: from the acknowledged submit to the start of the handler. */
async function latency (peer, jobs) {
  await peer.start(ran)
  await peer.submit(jobs)
  await waitFor(1, 20)
  await sleep(1000)
  const begun = now()
  const submitted = []
  for (let id = 0; id < jobs; id++) {
    await sleep(Math.max(0, begun + id * 50 - now()))
    await peer.submit(id)
    submitted.push(now())
  }
  await waitFor(jobs + 1, 10)
  // A handler that starts before its submitter hears of it counts as 0.
  const waits = submitted.map((at, id) => Math.max(0, starts.get(id) - at)).sort((a, b) => a - b)
  const at = hundredths => waits[Math.max(1, Math.ceil(waits.length * hundredths / 100)) - 1]
  return { jobs, p50_ms: at(50), p95_ms: at(95), p99_ms: at(99) }
}

export async function main (peer) {
  const [verb, first, second] = process.argv.slice(2)
  const n = Number(first ?? 0)
  const tuned = { latency: 'waiting', idle: 'waiting', submit: 'callers' }[verb] ?? 'throughput'
  const verbs = {
    setup: async () => { await peer.setup(); return {} },
    bulk: () => bulk(peer, n),
    fill: async () => { await inBatches(peer, n); return { jobs: n } },
    submit: () => submit(peer, n, Number(second ?? 50)),
    drain: () => drain(peer, n, Number(second ?? 600)),
    latency: () => latency(peer, n),
    idle: async () => { await peer.start(ran); await sleep(n * 1000); return {} }
  }
  try {
    if (!verbs[verb]) throw new Error('usage: setup | bulk N | fill N | submit N CALLERS | drain N [SECS] | latency N | idle SECS')
    await peer.open(process.env.DATABASE_URL, tuned, Number(second ?? 50))
    const told = await verbs[verb]()
    console.log(JSON.stringify({ ...told, verb, settings: peer.settings(tuned) }))
    // Not every worker can be asked to stop, and what it was measured for is over.
    process.exit(0)
  } catch (error) {
    console.error(error)
    process.exit(1)
  }
}
