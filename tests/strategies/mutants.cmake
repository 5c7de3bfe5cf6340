# Strategies with one bug each: a line of the real source is replaced by a wrong one, and the result is
# compiled into the tests, which show that it is found (see mutants_test.cpp). Bugs of this kind still
# train, only worse.
#
#   sources(FILE...)                what the bugs that follow are planted in, in an order that compiles:
#                                   all that they need of src/strategies/ in a copy of its own
#   bug(NAME "SPEC;..." FILE FROM TO)    in the strategies of these specs
#
# FILE is a name without its folder. FROM must stand in it exactly once: where a line has changed, say
# here what its bug is now.

set(mutants_folder ${CMAKE_CURRENT_BINARY_DIR}/mutants)
# Two files, since a name can't be both a copy's and the original's: bugs in strategies alone, and
# those in what several strategies share.
set(mutants_alone "")
set(mutants_shared "")
set(mutants_declared "")
set(mutants_listed "")
set(mutants_number 0)

function(path_of file)
  file(GLOB_RECURSE path ${CMAKE_SOURCE_DIR}/src/strategies/${file})
  set(path ${path} PARENT_SCOPE)
endfunction()

function(sources)
  set(includes "")
  foreach(file IN LISTS ARGN)
    path_of(${file})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${path})
    file(READ ${path} text)
    string(REGEX MATCHALL "#include [^\n]*" lines "${text}")
    list(APPEND includes ${lines})
  endforeach()
  foreach(file IN LISTS ARGN)
    list(FILTER includes EXCLUDE REGEX "[\"/]${file}\"")
  endforeach()
  list(REMOVE_DUPLICATES includes)
  list(JOIN includes "\n" includes)
  set(mutants_file mutants_alone)
  if("${ARGN}" MATCHES "\\.h")
    set(mutants_file mutants_shared)
  endif()
  set(mutants_sources_now "${ARGN}" PARENT_SCOPE)
  set(mutants_file ${mutants_file} PARENT_SCOPE)
  set(${mutants_file} "${${mutants_file}}${includes}\n" PARENT_SCOPE)
endfunction()

function(bug name specs file from to)
  math(EXPR number "${mutants_number} + 1")
  set(space mutant_${number})
  set(all "")
  foreach(member IN LISTS mutants_sources_now)
    path_of(${member})
    file(READ ${path} text)
    if(member STREQUAL file)
      string(FIND "${text}" "${from}" first)
      string(FIND "${text}" "${from}" last REVERSE)
      if(first EQUAL -1 OR NOT first EQUAL last)
        message(FATAL_ERROR "the bug '${name}' is planted where ${path} says\n${from}\n"
                            "which must stand there exactly once: bring tests/strategies/mutants.cmake "
                            "up to date")
      endif()
      string(REPLACE "${from}" "${to}" text "${text}")
    endif()
    string(REGEX REPLACE "#(include|pragma) [^\n]*\n" "" text "${text}")
    string(REPLACE "namespace lockstep {" "namespace lockstep::${space} {" text "${text}")
    string(APPEND all "${text}")
  endforeach()
  foreach(spec IN LISTS specs)
    string(REGEX REPLACE ":.*" "" maker ${spec})
    string(REPLACE "-" "_" maker ${maker})
    if(maker STREQUAL all_reduce)
      set(maker all_reduce_sgd)
    endif()
    string(APPEND mutants_declared "namespace ${space} {\nStrategyMaker ${maker}(const Options&);\n}\n")
    string(APPEND mutants_listed "      {\"${name}\", \"${spec}\", ${space}::${maker}},\n")
  endforeach()
  set(${mutants_file} "${${mutants_file}}${all}" PARENT_SCOPE)
  set(mutants_declared "${mutants_declared}" PARENT_SCOPE)
  set(mutants_listed "${mutants_listed}" PARENT_SCOPE)
  set(mutants_number ${number} PARENT_SCOPE)
endfunction()

# Leaves a file alone that would be the same.
function(write_mutants file text)
  file(WRITE ${mutants_folder}/${file}.new "${text}")
  configure_file(${mutants_folder}/${file}.new ${mutants_folder}/${file} COPYONLY)
endfunction()

set(scores_its_own [[  void read_model(Replica& replica, Values model) override {
    copy(model.bytes(), replica.weights().bytes());
  }
  std::uint64_t bytes_sent(const Step&]])
set(bytes_of_step [[  std::uint64_t bytes_sent(const Step&]])
set(reads_mean [[read_mean(crew_, replica.weights(), model, shares_in_model())]])
set(reads_its_own [[copy(model.bytes(), replica.weights().bytes())]])

sources(all_reduce_sgd.cpp)
bug("never averages gradients" all-reduce all_reduce_sgd.cpp
    [[if (!of_weights_) mean_->run(step, step.samples)]] [[(void)0]])
bug("never averages weights" all-reduce:average=weights all_reduce_sgd.cpp
    [[if (of_weights_) mean_->run(step, step.samples)]] [[(void)0]])
bug("steps twice" all-reduce all_reduce_sgd.cpp
    [[    replica.apply_gradients(step.number);]]
    [[    replica.apply_gradients(step.number); replica.apply_gradients(step.number);]])
bug("never steps" all-reduce all_reduce_sgd.cpp [[    replica.apply_gradients(step.number);]] "")
bug("scores nothing" all-reduce all_reduce_sgd.cpp
    [[copy(model.bytes(), replica.weights().bytes())]] [[(void)replica, (void)model]])

sources(parameter_server.cpp)
bug("never stores what it pulls" parameter-server parameter_server.cpp
    [[messages.take(server, landing().part(part))]] [[messages.take(server, gradients_->part(part))]])
bug("steps twice" parameter-server parameter_server.cpp
    [[        replica_->apply_gradients(step_, {own.begin + piece.begin, piece.count});]]
    [[        replica_->apply_gradients(step_, {own.begin + piece.begin, piece.count});
        replica_->apply_gradients(step_, {own.begin + piece.begin, piece.count});]])
bug("never steps" parameter-server parameter_server.cpp
    [[        replica_->apply_gradients(step_, {own.begin + piece.begin, piece.count});]]
    [[        (void)own, (void)piece;]])
bug("scores nothing" parameter-server parameter_server.cpp
    [[copy(model.bytes(), replica.weights().bytes())]] [[(void)replica, (void)model]])

sources(step_wise.cpp)
bug("goes on with the sum" step-wise step_wise.cpp [[        scale(w.part(segment), factor);]]
    [[        (void)w, (void)segment, (void)factor;]])
bug("never adds its own" step-wise step_wise.cpp
    [[visit.share == 0 ? messages.take(visit.from, w) : messages.fold(visit.from, w)]]
    [[messages.take(visit.from, w)]])
bug("steps twice" step-wise step_wise.cpp [[    replica.apply_gradients(step.number);]]
    [[    replica.apply_gradients(step.number); replica.apply_gradients(step.number);]])
bug("never steps" step-wise step_wise.cpp [[    replica.apply_gradients(step.number);]] "")
bug("scores its own weights" step-wise step_wise.cpp "${bytes_of_step}" "${scores_its_own}")

sources(d_psgd.cpp)
bug("counts alike whatever its samples" d-psgd d_psgd.cpp
    [[    const double share = shares_of(step.samples)[crew_.rank.rank()];]]
    [[    const double share = 1;]])
bug("never mixes" d-psgd d_psgd.cpp
    [[    if (!neighbours.empty()) add_scaled(x, -1 / (degree + 1), pull);]] "")
bug("steps twice" d-psgd d_psgd.cpp [[    replica.apply_gradients(step.number, share);]]
    [[    replica.apply_gradients(step.number, share); replica.apply_gradients(step.number, share);]])
bug("never steps" d-psgd d_psgd.cpp [[    replica.apply_gradients(step.number, share);]] "")
bug("scores its own weights" d-psgd d_psgd.cpp "${bytes_of_step}" "${scores_its_own}")

set(outer_loops slow-mo:period=2 diloco:period=2)
set(local_sgds local-sgd ${outer_loops})
sources(local_sgd.h local_sgd.cpp slow_mo.cpp diloco.cpp)
bug("never averages" "${local_sgds}" local_sgd.cpp [[mean_->run(step, since_)]] [[(void)0]])
bug("counts the samples of the last step" "${local_sgds}" local_sgd.cpp
    [[mean_->run(step, since_)]] [[mean_->run(step, step.samples)]])
bug("forgets the samples of earlier steps" "${local_sgds}" local_sgd.cpp [[  if (!averaged_)]]
    [[  if (false)]])
bug("steps twice" "${local_sgds}" local_sgd.cpp [[  replica.apply_gradients(step.number);]]
    [[  replica.apply_gradients(step.number); replica.apply_gradients(step.number);]])
bug("never steps" "${local_sgds}" local_sgd.cpp [[  replica.apply_gradients(step.number);]] "")
bug("scores its own weights" "${local_sgds}" local_sgd.cpp "${reads_mean}" "${reads_its_own}")
bug("scores the plain mean" "${local_sgds}" local_sgd.cpp
    [[averaged_ ? std::vector<double>(crew_.workers, 1) : shares_of(since_)]]
    [[std::vector<double>(crew_.workers, 1)]])
bug("never goes on from the outer step" "${outer_loops}" local_sgd.cpp
    [[  copy(weights.bytes(), start_->values().bytes());]] "")

sources(sma.cpp)
bug("counts alike whatever its samples" sma sma.cpp
    [[      const double share = share_of(crew_.rank.rank(), step);]]
    [[      const double share = 1;]])
bug("is never drawn to the centre" sma sma.cpp [[      add_scaled(w, -1, c);]] "")
bug("never moves the centre" sma sma.cpp [[    move_centre(sum);]] "")
bug("steps twice" sma sma.cpp [[      replica.apply_gradients(step.number, share);]]
    [[      replica.apply_gradients(step.number, share); replica.apply_gradients(step.number, share);]])
bug("never steps" sma sma.cpp [[      replica.apply_gradients(step.number, share);]] "")
bug("scores its own weights" sma sma.cpp
    [[void read_model(Replica&, Values model) override { copy(model.bytes(), z_->values().bytes()); }]]
    [[void read_model(Replica& r, Values model) override { copy(model.bytes(), r.weights().bytes()); }]])

# Where workers go apart and the model is at servers.
set(of_servers_that_step asp downpour)
set(of_servers_that_add ssp:s=1 easgd:period=2)
set(of_servers ${of_servers_that_step} ${of_servers_that_add})
sources(central_messages.h fed_push.h central_server.h central.h central_stream.h fed_push.cpp
        central_server.cpp central.cpp central_stream.cpp asp.cpp ssp.cpp downpour.cpp easgd.cpp)
bug("applies a push twice" "${of_servers}" central_server.cpp [[    apply(replica, worker);
  } else]] [[    apply(replica, worker);
    apply(replica, worker);
  } else]])
bug("never applies a push" "${of_servers}" central_server.cpp [[    apply(replica, worker);
  } else]] [[  } else]])
bug("gives old weights" "${of_servers}" central_server.cpp [[copy(given.bytes(), weights.bytes());]]
    [[if (clients_[worker].pushes < 2) copy(given.bytes(), weights.bytes());]])
bug("scores something else at rest" "${of_servers}" central.cpp
    [[    copy(model.bytes(), model_->values().bytes());]] "")
bug("steps twice" "${of_servers_that_step}" central.cpp
    [[  replica.apply_gradients(push.step, push.shard, push.updates);]]
    [[  replica.apply_gradients(push.step, push.shard, push.updates);
  copy(replica.gradients().part(push.shard).bytes(), push.values.bytes());
  replica.apply_gradients(push.step, push.shard, push.updates);]])
bug("never steps" "${of_servers_that_step}" central.cpp
    [[  replica.apply_gradients(push.step, push.shard, push.updates);]] "")
bug("steps with an old gradient" "${of_servers_that_step}" central.cpp
    [[copy(gradients.bytes(), push.values.bytes());]]
    [[if (push.updates == 0) copy(gradients.bytes(), push.values.bytes());]])
bug("adds twice" "${of_servers_that_add}" central.cpp [[  combine(weights, push.values.bytes());]]
    [[  combine(weights, push.values.bytes());
  combine(weights, push.values.bytes());]])
bug("never adds" "${of_servers_that_add}" central.cpp [[  combine(weights, push.values.bytes());]] "")
bug("never stores what it pulls" ssp:s=1 central_stream.cpp
    [[      copy(weights.part(shard(k)).bytes(), news_[k].weights.values().bytes());]] "")
bug("takes old weights for new ones" ssp:s=1 central_stream.cpp
    [[      std::swap(news.landing, news.weights);]]
    [[      if (news.answers < 2) std::swap(news.landing, news.weights);]])
bug("forgets its own changes" ssp:s=1 central_stream.cpp
    [[      if (change->number > came[k]->pushes)]] [[      if (false)]])
bug("counts its own changes twice" ssp:s=1 central_stream.cpp
    [[      if (change->number > came[k]->pushes)]] [[      if (true)]])
bug("is wrong about its own changes by one" ssp:s=1 central_stream.cpp
    [[      if (change->number > came[k]->pushes)]] [[      if (change->number >= came[k]->pushes)]])

set(to_rest [[    copy(replica.weights().bytes(), at_rest().bytes());]])

sources(asp.cpp)
bug("never stores what it pulls" asp asp.cpp
    [[      push_and_pull(step, replica.gradients(), replica.weights());]]
    [[      Scratch lost(replica.weights(), replica.weights().count());
      push_and_pull(step, replica.gradients(), lost.values());]])
bug("does not go on from the newest" asp asp.cpp "${to_rest}" "")
bug("loses every other push" asp asp.cpp
    [[      push_and_pull(step, replica.gradients(), replica.weights());]]
    [[      if (step.number % 2 == 0)
        push_and_pull(step, replica.gradients(), replica.weights());
      else
        pull(step, replica.weights());]])

sources(ssp.cpp)
set(changed [[    subtract_from(weights, change);
    return encode(change, false);]])
bug("does not wait for what it has to read" ssp:s=1 ssp.cpp [[stream_->await(lead_)]]
    [[stream_->await(lead_ + 1)]])
bug("never reads" ssp:s=1 ssp.cpp [[    take_news(weights);]] "")
bug("reads what is too old" ssp:s=1 ssp.cpp [[needed - std::min(needed, s_)]] [[0]])
bug("does not go on from the newest" ssp:s=1 ssp.cpp "${to_rest}" "")
bug("pushes what it had" ssp:s=1 ssp.cpp "${changed}" [[    return encode(change, false);]])
bug("pushes the change twice over" ssp:s=1 ssp.cpp "${changed}"
    [[    subtract_from(weights, change);
    scale(change, 2);
    return encode(change, false);]])
bug("pushes the change backwards" ssp:s=1 ssp.cpp "${changed}"
    [[    subtract_from(weights, change);
    scale(change, -1);
    return encode(change, false);]])
bug("steps twice" ssp:s=1 ssp.cpp [[replica.apply_gradients(step.number, own_share(step));]]
    [[{
      replica.apply_gradients(step.number, own_share(step));
      for (std::size_t i = 0; i < weights.count(); ++i)
        reinterpret_cast<float*>(replica.gradients().bytes().data)[i] = 0.5f;
      replica.apply_gradients(step.number, own_share(step));
    }]])
bug("never steps" ssp:s=1 ssp.cpp [[replica.apply_gradients(step.number, own_share(step));]] [[(void)replica;]])

sources(downpour.cpp)
bug("never stores what it fetches" downpour downpour.cpp
    [[copy(replica.weights().bytes(), fetched_->values().bytes());]] [[(void)replica;]])
bug("never takes what it fetches" downpour downpour.cpp [[    leaves_rest();
    take_fetched(replica);]] [[    leaves_rest();
    finish(fetching_);]])
bug("pushes a sum twice" downpour:push=2 downpour.cpp [[    has_sum_ = false;]] "")
bug("forgets a gradient of the sum" downpour:push=2 downpour.cpp
    [[      combine(sum, gradients.bytes());]] [[      copy(sum.bytes(), gradients.bytes());]])
bug("never pushes" downpour downpour.cpp [[    pushing_ = start_push({step, 0, {}}, pushed_);]]
    [[    (void)step;]])
bug("changes what is on its way" downpour downpour.cpp
    [[    pushing_ = start_push({step, 0, {}}, pushed_);]]
    [[    pushing_ = start_push({step, 0, {}}, pushed_);
    scale(pushed_->values(), 2);]])
bug("keeps the last gradients to itself" downpour:push=3 downpour.cpp
    [[    if (has_sum_) push_sum(taken - 1);]] [[    (void)taken;]])
bug("never steps itself" downpour downpour.cpp [[      replica.apply_gradients(step.number);]] "")

sources(easgd.cpp)
bug("is never drawn to the centre" easgd:period=2 easgd.cpp [[    add_scaled(x, -1, d);]] "")
bug("never draws the centre" easgd:period=2 easgd.cpp [[    push(step, d);]] [[    (void)step;]])
bug("draws the centre the wrong way" easgd:period=2 easgd.cpp [[    push(step, d);]]
    [[    scale(d, -1);
    push(step, d);]])
bug("forgets a round" easgd:period=2,mode=sync easgd.cpp [[      add(replica, *push);]] "")
bug("counts a round twice" easgd:period=2,mode=sync easgd.cpp [[      add(replica, *push);]]
    [[      add(replica, *push);
      add(replica, *push);]])
bug("steps twice" easgd:period=2 easgd.cpp [[      replica.apply_gradients(step.number, own_share(step));]]
    [[      {
      replica.apply_gradients(step.number, own_share(step));
      scale(replica.gradients(), 0);
      replica.apply_gradients(step.number, own_share(step));
    }]])
bug("never steps" easgd:period=2 easgd.cpp [[      replica.apply_gradients(step.number, own_share(step));]] [[      (void)0;]])
bug("forgets its momentum" easgd:period=2,momentum=0.5 easgd.cpp [[    combine(x, v.bytes());]] "")
bug("never looks ahead" easgd:period=2,momentum=0.5 easgd.cpp
    [[    combine(weights, x.bytes());]] "")

sources(gossip.cpp)
bug("never stores what comes" gossip:p=1 gossip.cpp [[    add_scaled(x, share, x_s);]] "")
bug("does not halve what it sends" gossip:p=1 gossip.cpp [[    mass_ -= half;]] "")
bug("sends the other half too" gossip:p=1 gossip.cpp [[GossipHead::of(half, step_]]
    [[GossipHead::of(half + mass_, step_]])
bug("keeps a third" gossip:p=1 gossip.cpp [[const std::uint64_t half = mass_ / 2;]]
    [[const std::uint64_t half = 2 * (mass_ / 3);]])
# These are in keeping with themselves: only masses and weights together show them.
bug("mixes by twice its mass" gossip:p=1 gossip.cpp
    [[    const double a = static_cast<double>(mass_), a_s]]
    [[    const double a = 2 * static_cast<double>(mass_), a_s]])
bug("mixes by halves" gossip:p=1 gossip.cpp [[    const double share = a_s / (a + a_s);]]
    [[    const double share = a + a_s > 0 ? 0.5 : 0;]])
bug("mixes by the mass before it sent" gossip:p=1 gossip.cpp
    [[    const double a = static_cast<double>(mass_), a_s]]
    [[    const double a = static_cast<double>(first_mass()), a_s]])
bug("sends a mass that it keeps" gossip:p=1 gossip.cpp
    [[    book_.mass_left(part_of_all(head.mass()), mass(), to);]] [[    mass_ += half;]])
bug("counts what comes twice" gossip:p=1 gossip.cpp [[    mass_ += parcel.mass;]]
    [[    mass_ += 2 * parcel.mass;
    book_.mass_came(part_of_all(parcel.mass), crew_.rank.rank());]])
bug("says that more came than did" gossip:p=1 gossip.cpp [[    mass_ += parcel.mass;]]
    [[    mass_ += 2 * parcel.mass;
    book_.mass_came(part_of_all(parcel.mass), parcel.parts[0].from);]])
bug("starts with all the mass" gossip:p=1 gossip.cpp
    [[return chunk(kWhole, crew_.workers, crew_.rank.rank()).count;]]
    [[return crew_.rank.rank() == 0 ? kWhole - crew_.workers + 1 : 1;]])
bug("counts for another mass in the model" gossip:p=1 gossip.cpp
    [[  double mass() const override { return part_of_all(mass_); }]]
    [[  double mass() const override { return 1; }]])
bug("keeps nothing of what comes" gossip:p=1 gossip.cpp [[    mass_ += parcel.mass;]] "")
bug("steps twice" gossip:p=1 gossip.cpp [[    replica.apply_gradients(step.number, own_share(step));]]
    [[    replica.apply_gradients(step.number, own_share(step));
    scale(replica.gradients(), 0);
    replica.apply_gradients(step.number, own_share(step));]])
bug("never steps" gossip:p=1 gossip.cpp [[    replica.apply_gradients(step.number, own_share(step));]] "")

# Mass that is lost between workers: the first shows only in the masses of all together.
sources(gossip_mail.h gossip_mail.cpp gossip.cpp)
bug("loses a message on its way" gossip:p=1 gossip_mail.cpp
    [[    mail_.received(peer, peers_[peer].head, landing_);]] "")
bug("loses the mass of what comes second" gossip:p=1 gossip_mail.cpp
    [[    inbox_.mass += head.mass();]] "")
bug("merges what comes by halves" gossip:p=1 gossip_mail.cpp
    [[  add_scaled(x, a_s / (a + a_s), x_s);]] [[  add_scaled(x, a + a_s > 0 ? 0.5 : 0, x_s);]])

sources(ad_psgd_exchange.h ad_psgd_exchange.cpp ad_psgd.cpp)
bug("computes on old weights" ad-psgd ad_psgd.cpp [[    copy(snapshot.bytes(), x.bytes());]] "")
bug("forgets its own step" ad-psgd ad_psgd.cpp [[    add_scaled(x, 1, snapshot);]]
    [[    add_scaled(x, 0, snapshot);]])
bug("an active worker never averages" ad-psgd ad_psgd_exchange.cpp [[  add_scaled(x, 0.5, b);]] "")
bug("a passive worker never averages" ad-psgd ad_psgd_exchange.cpp [[  add_scaled(x, 0.5, a);]] "")
bug("loses what came last" ad-psgd ad_psgd.cpp
    [[    copy(replica.weights().bytes(), exchange_->x().bytes());]] "")
bug("steps twice" ad-psgd ad_psgd.cpp [[    replica.apply_gradients(step.number, own_share(step));]]
    [[    replica.apply_gradients(step.number, own_share(step));
    scale(replica.gradients(), 0);
    replica.apply_gradients(step.number, own_share(step));]])
bug("never steps" ad-psgd ad_psgd.cpp [[    replica.apply_gradients(step.number, own_share(step));]] "")

# Which no audit sees.
sources(hogwild.cpp)
bug("never reads what others did" hogwild hogwild.cpp [[    read(numbers(weights));
  }

  // Nobody]] [[  }

  // Nobody]])
bug("adds twice" hogwild hogwild.cpp [[    add(numbers(before), numbers(weights));]]
    [[    add(numbers(before), numbers(weights));
    add(numbers(before), numbers(weights));]])
bug("never adds" hogwild hogwild.cpp [[    add(numbers(before), numbers(weights));]] "")
bug("steps twice" hogwild hogwild.cpp [[    replica.apply_gradients(step.number, own_share(step));]]
    [[    Scratch once(replica.gradients(), before.count());
    copy(once.values().bytes(), replica.gradients().bytes());
    replica.apply_gradients(step.number, own_share(step));
    copy(replica.gradients().bytes(), once.values().bytes());
    replica.apply_gradients(step.number, own_share(step));]])
bug("never steps" hogwild hogwild.cpp [[    replica.apply_gradients(step.number, own_share(step));]] "")
bug("does not go on from the newest" hogwild hogwild.cpp
    [[    if (shared_) read(numbers(replica.weights()));
    copy(before_]] [[    copy(before_]])
bug("scores something else at rest" hogwild hogwild.cpp
    [[      copy(model.bytes(), before_->values().bytes());]] [[      (void)model;]])

sources(epoch_average.cpp)
bug("never stores the average" epoch-average epoch_average.cpp [[    add_up(into.weights, by, weights);]] "")
bug("never stores the average of statistics" epoch-average epoch_average.cpp
    [[    add_up(into.statistics, by_samples(by, results), statistics);]] "")
bug("counts statistics alike" epoch-average epoch_average.cpp
    [[    add_up(into.statistics, by_samples(by, results), statistics);]]
    [[    add_up(into.statistics, by, statistics);]])
bug("leaves samples out of what statistics count for" epoch-average epoch_average.cpp
    [[by.push_back(factors[k] * static_cast<double>(results[k].samples));]]
    [[by.push_back(factors[k]);]])
bug("counts by one too many" epoch-average epoch_average.cpp [[: 1 / m);]] [[: 1 / (m + 1));]])
set(terms_of_rounds [[  const RoundTerms& terms() const override { return terms_; }]])
bug("steps twice" epoch-average epoch_average.cpp "${terms_of_rounds}" "${terms_of_rounds}
  void update(Replica& replica, const Step& step) override {
    book_.follow(replica, step, has_samples(step), [&](Replica& own) {
      own.apply_gradients(step.number);
      scale(own.gradients(), 0);
      own.apply_gradients(step.number);
    });
  }")
bug("never steps" epoch-average epoch_average.cpp "${terms_of_rounds}" "${terms_of_rounds}
  void update(Replica& replica, const Step& step) override {
    book_.follow(replica, step, has_samples(step), [](Replica&) {});
  }")

write_mutants(alone.cpp "${mutants_alone}")
write_mutants(shared.cpp "${mutants_shared}")
write_mutants(list.cpp "#include \"strategies/mutants.h\"

namespace lockstep {
${mutants_declared}
namespace testing {
std::vector<Mutant> mutants() {
  return {
${mutants_listed}  };
}
}  // namespace testing
}  // namespace lockstep
")
