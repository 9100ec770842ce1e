// The three requests in Fastify with ioredis, as their manuals advise: schemas for parameters and responses, so that
// responses are written by generated code; automatic pipelining, so that the commands of one event loop iteration are sent
// together.
//
//   node index.js PORT REDIS_PORT
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import Fastify from 'fastify'
import Redis from 'ioredis'

const [port, redisPort] = process.argv.slice(2).map(Number)
const redis = new Redis({ host: '127.0.0.1', port: redisPort, enableAutoPipelining: true })
const app = Fastify({ logger: false, keepAliveTimeout: 600_000 })

const PAGE = 100
const text = { type: 'string', nullable: true }
const number = { type: 'integer', nullable: true }
const history = { type: 'object', additionalProperties: { type: 'integer' } }
const schemas = JSON.parse(readFileSync(new URL('../../../docs/openapi.json', import.meta.url))).components.schemas
const typeOf = (schema) => schema.$ref?.endsWith('/FollowersHistory') ? history : schema.type?.[0] === 'integer' ? number : text
const fieldsOf = ({ required, properties }) => Object.fromEntries(required.map((name) => [name, typeOf(properties[name])]))
const summary = fieldsOf(schemas.ChannelSummary)
const card = fieldsOf(schemas.Channel)
const summaryNames = Object.keys(summary)
const cardNames = Object.keys(card)

const failure = { type: 'object', properties: { success: { type: 'boolean' }, error: { type: 'string' } } }
const answerOf = (data, more = {}) => ({
  200: { type: 'object', properties: { success: { type: 'boolean' }, data, ...more } },
  '4xx': failure,
  '5xx': failure
})
const cardAnswer = answerOf({ type: 'object', properties: card })
const pageAnswer = answerOf({ type: 'array', items: { type: 'object', properties: summary } }, {
  pagination: {
    type: 'object',
    properties: {
      page: { type: 'integer' }, per_page: { type: 'integer' }, count: { type: 'integer' }, has_next: { type: 'boolean' }
    }
  }
})

const refuse = (reply, status, error) => reply.code(status).send({ success: false, error })

// The check of the key goes out in the same pipeline as the first command of the request.
function keyIsValid (request) {
  const key = request.headers['x-api-key'] ?? request.query.api_key ?? ''
  return redis.sismember('channels:api_keys', createHash('sha256').update(key).digest('hex'))
}

function readRow (values, names, fields) {
  const row = {}
  for (let i = 0; i < names.length; i++) {
    const value = values[i]
    if (names[i] === 'followers_history') row[names[i]] = value === null ? {} : JSON.parse(value)
    else row[names[i]] = value !== null && fields[names[i]] === number ? Number(value) : value
  }
  return row
}

const readCard = (id) => redis.hmget(`channels:card:${id}`, cardNames)

function sendCard (reply, values) {
  if (values === null || values[0] === null) return refuse(reply, 404, 'Channel not found')
  return { success: true, data: readRow(values, cardNames, card) }
}

const idSchema = { type: 'object', properties: { id: { type: 'string', pattern: '^-?[0-9]+$' } } }
app.get('/api/channel/by-id/:id/', { schema: { params: idSchema, response: cardAnswer } }, async (request, reply) => {
  const [valid, values] = await Promise.all([keyIsValid(request), readCard(request.params.id)])
  if (valid !== 1) return refuse(reply, 401, 'Invalid or missing API key')
  return sendCard(reply, values)
})

const linkSchema = { type: 'object', properties: { link: { type: 'string' } }, required: ['link'] }
app.get('/api/channel/by-link/', { schema: { querystring: linkSchema, response: cardAnswer } }, async (request, reply) => {
  const [valid, id] = await Promise.all([keyIsValid(request), redis.get(`channels:link:${request.query.link}`)])
  if (valid !== 1) return refuse(reply, 401, 'Invalid or missing API key')
  return sendCard(reply, id === null ? null : await readCard(id))
})

const pageSchema = { type: 'object', properties: { page: { type: 'integer', minimum: 1, default: 1 } } }
app.get('/api/channels/', { schema: { querystring: pageSchema, response: pageAnswer } }, async (request, reply) => {
  const page = request.query.page
  const first = (page - 1) * PAGE
  const [valid, ids] = await Promise.all([keyIsValid(request), redis.zrange('channels:index', first, first + PAGE)])
  if (valid !== 1) return refuse(reply, 401, 'Invalid or missing API key')
  const rows = await Promise.all(ids.slice(0, PAGE).map((id) => redis.hmget(`channels:card:${id}`, summaryNames)))
  const data = rows.map((values) => readRow(values, summaryNames, summary))
  return {
    success: true,
    data,
    pagination: { page, per_page: PAGE, count: data.length, has_next: ids.length > PAGE }
  }
})

await app.listen({ host: '127.0.0.1', port, backlog: 1024 })
